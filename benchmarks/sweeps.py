"""A sweep relative to single runs: what it costs besides them, idle workers, memory.

Runs are of one trace under Poisson arrivals, a seed each, so all are alike. A sweep has `--jobs`
workers; a single run is `pagedsim replay` of the same, its start included. *CPU* is user and system
time of a process and its children. *Ready* is the share of their time in which workers ran or
waited for a processor: 1 is as busy as they can be, whatever else runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from common import arguments, machine, table

KIB = 1024
RATE = 5  # requests a second: about that of the hour


class Ran(NamedTuple):
    """Seconds by the clock and of all processes, the largest of them in bytes, and `ready`.

    That is the share of their time, from first to last seen, in which workers ran or waited for a
    processor: what others take of the machine does not lower it, having nothing to do does.
    """

    clock_s: float
    cpu_s: float
    peak: int
    ready: float | None


def measured(arguments: list[str]) -> Ran:
    """Run a command that ends well, and look at its workers as it goes on (on Linux)."""
    began = time.perf_counter()
    ran = subprocess.Popen(
        [sys.executable, "-m", "pagedsim", *arguments], stdout=subprocess.DEVNULL
    )
    seen: dict[int, tuple[float, float]] = {}  # by worker: when last seen, s ready till then
    first: dict[int, float] = {}
    while True:
        pid, status, used = os.wait4(ran.pid, os.WNOHANG)
        if pid:
            break
        now = time.perf_counter()
        for worker in _workers(ran.pid):
            if (busy := _ready_s(worker)) is not None:
                first.setdefault(worker, now - busy)
                seen[worker] = (now, busy)
        time.sleep(0.05)
    assert status == 0, f"ended with {status}"
    lived = sum(last - first[worker] for worker, (last, _) in seen.items())
    ready = sum(busy for _, busy in seen.values()) / lived if lived else None
    clock_s = time.perf_counter() - began
    return Ran(clock_s, used.ru_utime + used.ru_stime, used.ru_maxrss * KIB, ready)


def _workers(pid: int) -> list[int]:
    """Processes that joblib has started under `pid`."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [
            int(child)
            for child in children
            if b"popen_loky" in Path(f"/proc/{child}/cmdline").read_bytes()
        ]
    except OSError:
        return []


def _ready_s(pid: int) -> float | None:
    """Seconds in which the process ran or waited for a processor."""
    try:
        runs, waits, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    except OSError:
        return None
    return (int(runs) + int(waits)) / 1e9


def swept(trace: str, limit: int | None, runs: int, jobs: int) -> Ran:
    """A sweep of that many seeds; asserts that each has its result."""
    with tempfile.TemporaryDirectory() as folder:
        grid = Path(folder, "grid.toml")
        head = f"trace = {json.dumps(os.path.abspath(trace) if os.path.exists(trace) else trace)}\n"
        head += f"rate = {RATE}\n" + ("" if limit is None else f"limit = {limit}\n")
        grid.write_text(f"{head}[grid]\nseed = {list(range(runs))}\n")
        out = Path(folder, "r")
        found = measured(["sweep", str(grid), "--out", str(out), "-j", str(jobs)])
        results = [p for p in out.glob("*.json") if p.name != "sweep.json"]
        assert len(results) == runs, f"{len(results)} results of {runs} runs"
        return found


def main(argv: list[str] | None = None) -> None:
    """Run and print."""
    parser = arguments(__doc__, repeat=2)
    parser.add_argument("--runs", type=int, nargs="+", default=[4, 40, 200], help="of each sweep")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(argv)
    print(f"{machine()}\n")
    more = ["--rate", str(RATE), "--quiet"]
    more += [] if options.limit is None else ["--limit", str(options.limit)]
    singles = [measured(["replay", options.trace, *more]) for _ in range(options.repeat)]
    one = min(singles, key=lambda ran: ran.cpu_s)
    rows = [("a single run", f"{one.clock_s:.1f}", f"{one.cpu_s:.2f}", "1", "", _mib(one.peak))]
    for runs in options.runs:
        ran = swept(options.trace, options.limit, runs, options.jobs)
        rows.append(
            (
                f"a sweep of {runs}",
                f"{ran.clock_s:.1f}",
                f"{ran.cpu_s:.2f}",
                f"{ran.cpu_s / runs / one.cpu_s:.2f}",
                "" if ran.ready is None else f"{ran.ready:.2f}",
                _mib(ran.peak),
            )
        )
    head = ("", "clock, s", "CPU, s", "CPU a run / single", "ready", "largest process, MiB")
    table(head, rows)


def _mib(size: int) -> str:
    return f"{size / 2**20:.0f}"


if __name__ == "__main__":
    main()
