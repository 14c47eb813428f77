"""Reading trace files, relative to the replay of what is in them.

A trace whose prompts share content (Mooncake's) is replayed with a prefix cache, at blocks of 16.
"""

from __future__ import annotations

from common import Settings, arguments, done, known, machine, replay, seconds, table, timed

from pagedsim.trace import load

LONG = 131_072  # maximum length where prompts are long


def main(argv: list[str] | None = None) -> None:
    """Run and print."""
    parser = arguments(__doc__)
    parser.add_argument("more", metavar="TRACE", nargs="*", help="more of them")
    options = parser.parse_args(argv)
    print(f"{machine()}\n")
    rows = []
    for path in (options.trace, *options.more):
        cold_s, trace = timed(lambda path=path: load(path, limit=options.limit))
        reads = [timed(lambda path=path: load(path, limit=options.limit)) for _ in range(5)]
        for _, again in reads:
            assert (len(again), again.sha256) == (len(trace), trace.sha256)
            assert int(again.prompt.sum()) == int(trace.run_length.sum())
        shared = trace.format == "mooncake"
        settings = Settings("constant:ms=30")
        if shared:
            settings = Settings("constant:ms=30", 0, "paged:block=16,prefix=on", LONG)
        runs = [replay(trace, settings) for _ in range(options.repeat)]
        work = done(trace, runs[0][1])
        assert all(done(trace, run) == work for _, run in runs)
        note = "as known" if known(trace, settings, work) else "not written down"
        read_s, run_s = min(s for s, _ in reads), min(s for s, _ in runs)
        print(f"{trace}\n  {settings}\n  {work} ({note})")
        print(f"  first read {cold_s:.3f} s, read {seconds([s for s, _ in reads])}")
        print(f"  replay {seconds([s for s, _ in runs])}\n")
        counts = (f"{len(trace):,}", f"{len(trace.run_token):,}")
        rows.append((trace.name, *counts, f"{read_s:.3f}", f"{run_s:.2f}", f"{read_s / run_s:.3f}"))
    table(("", "rows", "runs of tokens", "read, s", "replay, s", "read / replay"), rows)


if __name__ == "__main__":
    main()
