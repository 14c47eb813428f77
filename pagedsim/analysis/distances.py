"""How far two traces are from each other, quantity by quantity: docs/generator.md defines each.

Of two samples the *KS distance* is the largest difference between the shares that are up to a value
(Kolmogorov and Smirnov), the *Wasserstein distance* the area between the two curves of shares,
which has the unit of the values; it is stated relative to the first sample's mean.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from pagedsim.analysis.curve import Lookups
from pagedsim.analysis.simulate import Setup, run
from pagedsim.protocols import Int64
from pagedsim.trace import stats
from pagedsim.trace.fit.links import links
from pagedsim.trace.trace import Trace

SCHEMA = "pagedsim.distances/1"
POOR = 0.1  # a distance, or an error, above which a fit is called poor
_POINTS = 24


class Spread(msgspec.Struct, frozen=True):
    """Two samples. At `at` the share up to it is `upto_a` and `upto_b`, whose difference is `ks`;
    `noise` is what `ks` stays below in 95 % of pairs from one distribution. `wasserstein` is over
    the mean of a. None where a sample is empty.
    """

    name: str
    unit: str
    count_a: int
    count_b: int
    mean_a: float | None
    mean_b: float | None
    ks: float | None = None
    at: float | None = None
    upto_a: float | None = None
    upto_b: float | None = None
    noise: float | None = None
    wasserstein: float | None = None


class Single(msgspec.Struct, frozen=True):
    """A number of each trace; `error` is b's over a's, less 1, or b's less a's of shares."""

    name: str
    unit: str
    a: float | None
    b: float | None
    error: float | None


class Hits(msgspec.Struct, frozen=True):
    """Token hit rates of an LRU cache of `blocks` blocks; `largest` is the largest difference."""

    block: int
    blocks: tuple[int, ...]
    a: tuple[float, ...]
    b: tuple[float, ...]
    largest: float


class Distances(msgspec.Struct, frozen=True, kw_only=True):
    """All of it; `poor` says in words where b is not like a."""

    schema: str = SCHEMA
    a: str
    b: str
    requests_a: int
    requests_b: int
    spreads: tuple[Spread, ...]
    singles: tuple[Single, ...]
    hits: Hits | None
    poor: tuple[str, ...]


def distances(a: Trace, b: Trace, setup: Setup, *, block: int | None = None) -> Distances:
    """Compare `b` with `a`. `setup` is the one configuration under which both are replayed, with
    prefix caching. Blocks are `block` tokens, by default the larger of the traces' own.
    """
    size = block or max(int(trace.extra.get("block", 16)) for trace in (a, b))
    parts = [_samples(trace) for trace in (a, b)]
    spreads = tuple(
        spread(name, unit, one, other)
        for (name, unit, one), (_, _, other) in zip(*parts, strict=True)
    )
    reuse = [stats.reuse(trace, size) for trace in (a, b)]
    singles = [
        _single("rate", "requests/s", *(_rate(trace) for trace in (a, b))),
        _single("busiest 10 s", "of the mean", *(_peak(trace) for trace in (a, b))),
        _share("ideal reuse", *(each.tokens for each in reuse)),
        _share("with outputs", *(each.with_outputs for each in reuse)),
    ]
    if a.timed and b.timed:
        runs = [run(trace, "paged:prefix=on", setup).run for trace in (a, b)]
        singles += [
            _single("mean batch", "sequences", *(each.batch.mean for each in runs)),
            _single("prefix hit rate", "of tokens", *(each.prefix.hit_rate for each in runs)),
        ]
    hits = _hits(a, b, size)
    return Distances(
        a=a.name,
        b=b.name,
        requests_a=len(a),
        requests_b=len(b),
        spreads=spreads,
        singles=tuple(singles),
        hits=hits,
        poor=tuple(_poor(spreads, singles, hits)),
    )


def spread(name: str, unit: str, a: Any, b: Any) -> Spread:
    """The distances of two samples. O(n log n)."""
    mean_a, mean_b = (float(values.mean()) if len(values) else None for values in (a, b))
    if not (len(a) and len(b)):
        return Spread(name, unit, len(a), len(b), mean_a, mean_b)
    values = np.unique(np.concatenate((a, b)))
    upto = [np.searchsorted(np.sort(each), values, "right") / len(each) for each in (a, b)]
    apart = np.abs(upto[0] - upto[1])
    most = int(apart.argmax())
    area = float((apart[:-1] * np.diff(values)).sum())
    return Spread(
        name,
        unit,
        len(a),
        len(b),
        mean_a,
        mean_b,
        ks=float(apart[most]),
        at=float(values[most]),
        upto_a=float(upto[0][most]),
        upto_b=float(upto[1][most]),
        noise=float(1.358 * np.sqrt((len(a) + len(b)) / (len(a) * len(b)))),
        wasserstein=area / mean_a if mean_a else None,
    )


def _samples(trace: Trace) -> list[tuple[str, str, Any]]:
    """(name, unit, values) of what is compared as distributions."""
    parent = links(trace).parent
    later = np.flatnonzero(parent >= 0)
    pause = (trace.arrival_ns[later] - trace.arrival_ns[parent[later]]) / 1e9
    gaps = np.diff(trace.arrival_ns) / 1e9
    timed = trace.timed and bool(gaps.any())  # all at once is no load of one's own
    return [
        ("prompt", "tokens", trace.prompt),
        ("output", "tokens", trace.output),
        ("gap", "s", gaps if timed else gaps[:0]),
        ("turns", "of a session", _turns(parent)),
        ("turn to turn", "s", pause if timed else pause[:0]),
    ]


def _turns(parent: Int64) -> Int64:
    """Requests of each session."""
    root = np.arange(len(parent))
    for row, before in enumerate(parent.tolist()):
        if before >= 0:
            root[row] = root[before]
    return np.unique(root, return_counts=True)[1]


def _rate(trace: Trace) -> float | None:
    span = int(trace.arrival_ns[-1] - trace.arrival_ns[0]) / 1e9
    return len(trace) / span if trace.timed and span else None


def _peak(trace: Trace) -> float | None:
    burst = stats.burst(trace)
    return burst.peak if burst else None


def _single(name: str, unit: str, a: float | None, b: float | None) -> Single:
    both = a is not None and b is not None and a > 0
    return Single(name, unit, a, b, b / a - 1 if both else None)  # type: ignore[operator]


def _share(name: str, a: float, b: float) -> Single:
    return Single(name, "of prompt tokens", a, b, b - a)


def _hits(a: Trace, b: Trace, size: int) -> Hits | None:
    """None where neither trace shares anything."""
    looks = [Lookups(trace, block=size, count="full") for trace in (a, b)]
    most = max(look.needed for look in looks)
    if most < 1:
        return None
    at = np.unique(np.geomspace(1, most, _POINTS).round().astype(np.int64))
    one, other = (look.hits("lru", at).tokens / max(1, look.tokens) for look in looks)
    largest = float(np.abs(one - other).max())
    return Hits(size, tuple(at.tolist()), tuple(one.tolist()), tuple(other.tolist()), largest)


def _poor(spreads: tuple[Spread, ...], singles: list[Single], hits: Hits | None) -> list[str]:
    """A sentence for every distance above `POOR` that chance does not explain."""
    said = []
    for each in spreads:
        if (each.count_a == 0) != (each.count_b == 0):
            which = "a" if each.count_a else "b"
            said.append(f"{each.name}: only {which} has any")
        if each.ks is None or each.noise is None or each.ks <= each.noise:
            continue
        if each.ks <= POOR:
            if each.wasserstein is not None and each.wasserstein > POOR:
                said.append(f"{each.name}: mean {each.mean_a:.4g} in a, {each.mean_b:.4g} in b")
            continue
        assert each.upto_a is not None
        assert each.upto_b is not None
        unit = {"tokens": " tokens", "s": " s"}.get(each.unit, "")
        shares = f"{each.upto_a:.0%} of a's are up to {each.at:.4g}{unit}, {each.upto_b:.0%} of b's"
        said.append(f"{each.name}: {shares}")
    for one in singles:
        if one.error is not None and abs(one.error) > POOR:
            assert one.a is not None
            assert one.b is not None
            said.append(f"{one.name}: {one.a:.3g} in a, {one.b:.3g} in b")
    if hits is not None and hits.largest > POOR:
        place = int(np.argmax(np.abs(np.subtract(hits.a, hits.b))))
        said.append(
            f"hit-rate curve: {hits.a[place]:.1%} in a and {hits.b[place]:.1%} in b with "
            f"{hits.blocks[place]:,} blocks of {hits.block}"
        )
    return said


__all__ = ["POOR", "Distances", "Hits", "Single", "Spread", "distances", "spread"]
