"""`pagedsim replay` from the start of its process to its table, against importing its libraries.

Pairs of processes, one after the other: the first imports what a replay uses and ends, the second
replays the trace. What the second takes longer is the price of reading, replaying and reporting.
"""

from __future__ import annotations

import sys

from common import (
    GPU,
    MAX_LEN,
    MODEL,
    SCHEDULER,
    Settings,
    arguments,
    done,
    known,
    machine,
    process,
    replay,
    table,
)

from pagedsim.trace import load

LIBRARIES = "import numpy, simpy, polars, rich, typer, msgspec"


def main(argv: list[str] | None = None) -> None:
    """Run and print."""
    options = arguments(__doc__).parse_args(argv)
    trace = load(options.trace, limit=options.limit)
    print(f"{machine()}\n{trace}\n")
    limit = [] if options.limit is None else ["--limit", str(options.limit)]
    rows = []
    for spec in ("constant:ms=30", "roofline"):
        settings = Settings(spec)
        work = done(trace, replay(trace, settings)[1])
        note = "as known" if known(trace, settings, work) else "not written down"
        print(f"{settings}\n  {work} ({note})")
        command = [sys.executable, "-m", "pagedsim", "replay", options.trace, *limit]
        command += ["--model", MODEL, "--gpu", GPU, "--max-len", str(MAX_LEN)]
        command += ["--scheduler", SCHEDULER, "--steptime", spec]
        libraries = [sys.executable, "-c", LIBRARIES]
        pairs = [(process(libraries), process(command)) for _ in range(options.repeat)]
        tables = {ran.out for _, ran in pairs}
        assert len(tables) == 1, "two runs of one command differ"
        said = tables.pop()
        assert f"{len(trace):,} requests in" in said
        assert f"{work.steps:,} steps" in said
        for name, field in (("clock", "wall"), ("its own time", "cpu")):
            bare = [getattr(pair[0], field) for pair in pairs]
            full = [getattr(pair[1], field) for pair in pairs]
            more = sorted(b - a for a, b in zip(bare, full, strict=True))
            cells = (min(bare), min(full), min(full) - min(bare), more[len(more) // 2])
            rows.append((f"{spec}, {name}", *(f"{cell:.2f}" for cell in cells)))
    print()
    head = ("seconds", "libraries", "replay", "more, of the least", "more, median of pairs")
    table(head, rows)
    starts = {
        "python": "pass",
        "import pagedsim": "import pagedsim",
        "import pagedsim.cli": "import pagedsim.cli",
        "libraries": LIBRARIES,
    }
    times = {
        name: min(process([sys.executable, "-c", code]).cpu for _ in range(options.repeat))
        for name, code in starts.items()
    }
    table(("starting", "s of its own"), [(name, f"{s:.3f}") for name, s in times.items()])


if __name__ == "__main__":
    main()
