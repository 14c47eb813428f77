"""Growth from a thousand to a million generated chat requests: time a request, and peak memory.

Every size is made from the recipe of the bundled `chat` trace, at the rate of the Azure hour, and
replayed in a process of its own. Memory is that process's peak, and how much of it came with the
replay; *recorded* is what the recording's arrays hold.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from common import (
    Settings,
    Work,
    arguments,
    done,
    known,
    machine,
    peak_bytes,
    process,
    replay,
    table,
)

SIZES = "1000,10000,100000,1000000"
RATE = 5.5  # requests a second
SEED = 1


def generated(requests: int) -> Any:
    """The trace of that size."""
    import msgspec

    from pagedsim.trace import bundled
    from pagedsim.trace.arrivalmodels import Gamma
    from pagedsim.trace.make import make
    from pagedsim.trace.recipe import read

    place = bundled.recipe("chat")
    assert place is not None
    recipe = msgspec.structs.replace(read(place), arrivals=Gamma(rate=RATE, cv=1.09))
    return make(recipe, seed=SEED, requests=requests)


def child(requests: int) -> None:
    """Make the trace, replay it, print what it took as JSON."""
    trace = generated(requests)
    settings = Settings("roofline")
    before = peak_bytes()
    seconds, recording = replay(trace, settings)
    peak = peak_bytes()
    columns = (
        getattr(recording.requests, name) for name in recording.requests.__dataclass_fields__
    )
    held = recording.rows.nbytes + recording.starts.nbytes + sum(x.nbytes for x in columns)
    work = done(trace, recording)
    known(trace, settings, work)
    said = {"seconds": seconds, "before": before, "peak": peak, "held": held}
    print(json.dumps({**said, "windows": recording.rows.nbytes, "work": work}))


def main(argv: list[str] | None = None) -> None:
    """Run and print."""
    parser = arguments(__doc__, trace=False, repeat=1)
    parser.add_argument("--sizes", default=SIZES, help=f"requests of each  [{SIZES}]")
    parser.add_argument("--child", type=int, metavar="N", help="only replay N, in this process")
    options = parser.parse_args(argv)
    if options.child is not None:
        child(options.child)
        return
    print(f"{machine()}\nchat-like, {RATE:g} requests a second, {Settings('roofline')}\n")
    rows, sizes = [], [int(word) for word in options.sizes.split(",")]
    for size in sizes:
        command = [sys.executable, str(Path(__file__)), "--child", str(size)]
        runs = [json.loads(process(command).out) for _ in range(options.repeat)]
        work = Work(*runs[0]["work"])
        assert all(Work(*run["work"]) == work for run in runs)
        best = min(runs, key=lambda run: run["seconds"])
        more = best["peak"] - best["before"]
        cells = (
            f"{work.windows:,}",
            f"{work.request_steps:,}",
            f"{best['seconds']:.3f}",
            f"{best['seconds'] / size * 1e6:.1f}",
            f"{best['seconds'] / work.windows * 1e6:.1f}",
            f"{best['peak'] / 2**20:.0f}",
            f"{more / size:.0f}",
            f"{best['held'] / size:.0f}",
            f"{best['windows'] / work.windows:.0f}",
        )
        rows.append((f"{size:,}", *cells))
    head = ("requests", "windows", "request-steps", "s", "µs a request", "µs a window")
    table((*head, "peak MiB", "B a request", "recorded", "B a window"), rows)


if __name__ == "__main__":
    main()
