"""What sweeps of the tests run: quick, and with a note of every call in a file."""

from __future__ import annotations

import os
import signal
import time
from functools import cache
from pathlib import Path

import msgspec

from pagedsim import simulate
from pagedsim.analysis.report import result
from pagedsim.analysis.results import DeviceInfo, Result
from pagedsim.analysis.store import Case, key_of
from pagedsim.errors import SpecError
from pagedsim.trace import load

TRACE = Path(__file__).with_name("four.csv")


def case(number: int, **more: int | str) -> Case:
    config = {"number": number, **more}
    return Case(key=key_of(config, {}), name=f"number={number}", config=config)


def cases(count: int, **more: int | str) -> list[Case]:
    return [case(number, **more) for number in range(count)]


@cache
def made(number: int) -> Result:
    """A real result, another one for each number."""
    trace = load(TRACE).head(1 + number % 4)
    report = simulate(trace, "paged:block=16", max_len=4096, steptime=f"constant:ms={1 + number}")
    told = result(
        [report], DeviceInfo(model="m", gpu="g", kv_bytes_per_token=1, capacity_tokens=9), trace
    )
    return _timeless(told)


def _timeless(told: Result) -> Result:
    (run,) = told.runs
    said = msgspec.structs.replace(run.provenance, created="", wall_s=None)
    return msgspec.structs.replace(told, runs=(msgspec.structs.replace(run, provenance=said),))


def note(of: Case) -> None:
    """A line in the file `calls`: an append this short is whole."""
    with open(str(of.config["calls"]), "a") as file:
        file.write(f"{of.config['number']}\n")


def called(path: Path) -> list[int]:
    return sorted(map(int, path.read_text().split())) if path.exists() else []


def plain(of: Case) -> Result:
    if "calls" in of.config:
        note(of)
    if "seconds" in of.config:
        time.sleep(float(of.config["seconds"]))
    return made(int(of.config["number"]))


def odd_fails(of: Case) -> Result:
    if int(of.config["number"]) % 2:
        raise SpecError(f"number is {of.config['number']}, must be even")
    if int(of.config["number"]) == 4:
        raise ZeroDivisionError("of a plug-in")
    return plain(of)


def killed_once(of: Case) -> Result:
    """The process that runs number 3 is killed the first time."""
    marker = Path(str(of.config["calls"])).with_name("killed")
    if of.config["number"] == 3 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(of)


def killer(of: Case) -> Result:
    """The process that runs number 3 is always killed."""
    if of.config["number"] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(of)
