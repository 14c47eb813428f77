"""The fast engine against the reference engine: equal in every number, and how much faster.

Four replays: the GPU's pool and a pool that saturates, each with a constant step and with the
roofline; and three with groups of layers, of the first requests alone, for the reference counts
every block of theirs. The fast runs are taken before and after the one reference run, and count by
the quickest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import (
    SATURATED,
    US,
    Settings,
    arguments,
    done,
    known,
    machine,
    parts,
    replay,
    seconds,
    table,
)

from pagedsim.analysis import series
from pagedsim.engine.recording import Requests
from pagedsim.trace import load

GROUPS = ("full", "on", "on,prefix=on")
FIRST = 60  # requests replayed with groups


def equal(fast: Any, slow: Any, steptime: Any) -> int:
    """How many numbers were compared, all equal: per request, per step, and the free list."""
    assert fast.refused == slow.refused
    for name in Requests.__dataclass_fields__:
        ours, theirs = getattr(fast.requests, name), getattr(slow.requests, name)
        assert np.array_equal(ours, theirs), name
    assert fast.free == slow.free, "the free lists differ"
    at, wanted = 0, series.rows_of(slow)
    for rows in series.steps(fast, steptime):
        assert np.array_equal(rows, wanted[at : at + len(rows)]), f"near step {at}"
        at += len(rows)
    assert at == len(wanted)
    fields = len(Requests.__dataclass_fields__)
    return fields * len(slow.requests.status) + wanted.size + len(slow.free)


def _pool(settings: Settings) -> str:
    if "groups=" in settings.allocator:
        return settings.allocator.partition(":")[2]
    return f"{settings.kv_tokens or 'GPU'}"


def main(argv: list[str] | None = None) -> None:
    """Run and print."""
    parser = arguments(__doc__)
    parser.add_argument("--kv-tokens", type=int, default=SATURATED, help="of the saturated pool")
    options = parser.parse_args(argv)
    whole = load(options.trace, limit=options.limit)
    first = load(options.trace, limit=min(options.limit or FIRST, FIRST))
    print(f"{machine()}\n{whole}\n")
    rows = []
    specs = ("constant:ms=30", "roofline")
    asked = [Settings(spec, pool) for pool in (0, options.kv_tokens) for spec in specs]
    asked += [Settings("roofline", 0, f"paged:groups={mode}") for mode in GROUPS]
    for settings in asked:
        trace = first if "groups=" in settings.allocator else whole
        runs = [replay(trace, settings) for _ in range(max(1, options.repeat // 2))]
        slow_s, slow = replay(trace, settings, "reference")
        runs += [replay(trace, settings) for _ in range(options.repeat - len(runs))]
        numbers = {equal(run, slow, parts(settings)[2]) for _, run in runs}
        assert len(numbers) == 1
        work = done(trace, runs[0][1])
        assert all(done(trace, run) == work for _, run in runs)
        assert done(trace, slow) == work._replace(windows=work.steps)
        note = "as known" if known(trace, settings, work) else "not written down"
        times = [s for s, _ in runs]
        fast_s = min(times)
        print(f"{settings}\n  {work} ({note})\n  {numbers.pop():,} numbers equal")
        print(f"  fast {seconds(times)}, reference {slow_s:.3f} s\n")
        rows.append(
            (
                f"{settings.steptime}, {_pool(settings)}",
                f"{slow_s / fast_s:.1f}",
                f"{fast_s / work.windows * US:.1f}",
                f"{fast_s / work.steps * US:.2f}",
                f"{fast_s / work.request_steps * US * 1000:.0f}",
                f"{slow_s / work.request_steps * US:.2f}",
            )
        )
    head = ("", "times faster", "µs a window", "µs a step", "ns a request-step", "reference, µs")
    table(head, rows)


if __name__ == "__main__":
    main()
