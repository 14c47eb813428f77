"""A recipe that is fitted to a trace, without any request of it.

`fit` makes it of coarse numbers and quantiles (`shapes`); `links` finds turns and shared prefixes,
`pauses` how many turns and how long between, `prefixes` the tree; `toml` writes it.
"""
