"""Trying mutants inside a collected pytest session: which tests run which lines, and who fails.

`Trials` is a plugin of pytest that takes the place of its loop over tests.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import coverage
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings
from mutants import ROOT, SOURCE, Mutant, compiled, differing

MEMORY = 4 << 30  # bytes that a mutant may take besides what is mapped already
IMPORTED = ""  # the context of what runs before any test


class Ran(NamedTuple):
    """`tests`: (file, line) -> the tests that run it. `seconds` that each test takes."""

    tests: dict[tuple[str, int], set[str]]
    seconds: dict[str, float]


class Quick:
    """Settings of hypothesis for a look."""

    examples = 20

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Before the tests are read, which inherit them."""
        quick(self.examples)


class Trials(Quick):
    """Tries each of `todo`; `note(mutant, test that failed or "", seconds, tests)` hears of it.

    A mutant gets tests of `budget` seconds in all, with so many `examples`. `kept` is a file for
    what each test runs.
    """

    def __init__(
        self,
        todo: Sequence[Mutant],
        note: Callable[[Mutant, str, float, int], None],
        budget: float,
        examples: int,
        kept: Path | None,
    ) -> None:
        self.examples = examples
        self._todo, self._note, self._budget, self._kept = todo, note, budget, kept
        self._kills: Counter[str] = Counter()
        self._tried: Counter[str] = Counter()
        self.wrong = ""

    def pytest_runtestloop(self, session: Any) -> bool:
        """In place of pytest's."""
        items = {item.nodeid: item for item in session.items}
        ran = self._look(session.items)
        if ran is None:
            return True
        for mutant in self._todo:
            began = time.monotonic()
            lines = range(mutant.first, mutant.last + 1)
            tests = set[str]().union(*(ran.tests.get((mutant.file, line), ()) for line in lines))
            codes = differing(mutant)
            if codes:
                chosen = self._chosen(tests, ran.seconds)
                by = _fork([items[test] for test in chosen], ran.seconds, codes)
                for test in chosen[: chosen.index(by) + 1 if by in chosen else None]:
                    self._tried[test] += 1
                self._kills[by] += 1
            else:
                chosen = self._chosen(set(items), ran.seconds)  # who imports it cannot be told
                by = _process(mutant, chosen, ran.seconds)
            self._note(mutant, by, time.monotonic() - began, len(chosen))
        return True

    def _look(self, items: Sequence[Any]) -> Ran | None:
        """What each test runs, kept for as long as neither code nor tests change."""
        files = sorted([*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
        mark = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
        mark = f"{mark} {self.examples}"
        if self._kept is not None and self._kept.exists():
            was, ran = pickle.loads(self._kept.read_bytes())
            if was == mark:
                return Ran(*ran)
        ran = _look(items)
        if isinstance(ran, str):
            self.wrong = ran
            return None
        self.wrong = _fork(items, ran.seconds, [])  # no test fails for being run so
        if self.wrong:
            return None
        if self._kept is not None:
            self._kept.write_bytes(pickle.dumps((mark, tuple(ran))))
        return ran

    def _chosen(self, tests: set[str], seconds: dict[str, float]) -> list[str]:
        """The quickest and deadliest first, as many as the budget allows."""
        ordered = sorted(tests, key=lambda test: (self._worth(test, seconds[test]), test))
        spent = itertools.accumulate(seconds[test] for test in ordered)
        return [t for t, sum_ in zip(ordered, spent, strict=True) if sum_ <= self._budget] or (
            ordered[:1]
        )

    def _worth(self, test: str, seconds: float) -> float:
        return (0.02 + seconds) * (self._tried[test] + 4) / (self._kills[test] + 1)


def quick(examples: int) -> None:
    """The same few examples, nothing kept, nothing shortened."""
    assert settings.default is not None
    phases = [Phase.explicit, Phase.generate]
    chosen = settings(
        settings.default, max_examples=examples, derandomize=True, database=None, phases=phases,
        print_blob=False, report_multiple_bugs=False,
    )  # fmt: skip
    settings.register_profile("mutation", chosen)
    settings.load_profile("mutation")
    explore: Any = import_module("pagedsim.testing.explore")
    shortening = explore.of_profile
    explore.of_profile = lambda given, *, first=False: shortening(given, first=True)


def _look(items: Sequence[Any]) -> Ran | str:
    """Which lines each test runs, and how long it takes; or the test that fails, in a fork."""
    with tempfile.NamedTemporaryFile() as file:
        child = os.fork()
        if not child:
            try:
                _silence()
                Path(file.name).write_bytes(pickle.dumps(_lines(items)))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        lines, seconds = pickle.loads(Path(file.name).read_bytes())
    return lines if isinstance(lines, str) else Ran(lines, seconds)


def _lines(items: Sequence[Any]) -> tuple[Any, dict[str, float]]:
    watch = coverage.Coverage(data_file=None, source=[str(SOURCE)], config_file=False)
    watch.start()
    seconds = {}
    for item in items:
        watch.switch_context(item.nodeid)
        began = time.process_time()
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=None)):
            return item.nodeid, {}
        seconds[item.nodeid] = time.process_time() - began
    watch.stop()
    data, ran = watch.get_data(), defaultdict(set)
    for path in data.measured_files():
        file = Path(path).relative_to(SOURCE).as_posix()
        for line, contexts in data.contexts_by_lineno(path).items():
            ran[file, line] |= set(contexts) - {IMPORTED}
    return dict(ran), seconds


def _fork(items: Sequence[Any], seconds: dict[str, float], codes: Sequence[Any]) -> str:
    """The first of the tests that fails, or runs out of time, with these codes; "" if none does."""
    here, there = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setsid()
            _silence()
            _replace(codes)
            _bound_memory()
            for item in items:
                os.write(there, f"{item.nodeid}\n".encode())
                signal.setitimer(signal.ITIMER_PROF, _bound(seconds[item.nodeid]))
                reports = runtestprotocol(item, log=False, nextitem=None)
                signal.setitimer(signal.ITIMER_PROF, 0)
                if any(report.failed for report in reports):
                    os._exit(1)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(there)
    with os.fdopen(here, encoding="utf-8") as pipe:
        begun = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    assert begun or not items, "it ended before its first test"
    return begun[-1] if status else ""


def _bound(seconds: float) -> int:
    """Seconds of processor time for a test that takes so many."""
    return 5 + int(10 * seconds)


def _replace(codes: Sequence[Any]) -> None:
    """Give live functions their new code."""
    new = {(code.co_filename, code.co_qualname, code.co_firstlineno): code for code in codes}
    for found in gc.get_objects():
        if isinstance(found, FunctionType):
            was = found.__code__
            code = new.get((was.co_filename, was.co_qualname, was.co_firstlineno))
            if code is not None:
                found.__code__ = code


def _silence() -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)


def _bound_memory() -> None:
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, mapped + MEMORY))


def _process(mutant: Mutant, chosen: Sequence[str], seconds: dict[str, float]) -> str:
    """The same in a process that imports the mutated file; "import" where no test is named."""
    bound = 30 + sum(_bound(seconds[test]) for test in chosen)
    command = [sys.executable, str(Path(__file__).with_name("mutation.py"))]
    command += ["--alone", json.dumps([*mutant])]
    done = subprocess.run(
        command, input="\n".join(chosen), capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (bound, bound)),
    )  # fmt: skip
    return "import" if done.returncode else ""


def alone(given: Sequence[str], row: Sequence[Any]) -> int:
    """In a process of its own: pytest over the tests named on standard input, one file mutated."""
    mutant = Mutant(*row)
    target, code = str(SOURCE / mutant.file), compiled(mutant, SOURCE / mutant.file)
    plain = SourceFileLoader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        return code if self.path == target else plain(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
    tests = sys.stdin.read().splitlines()
    return int(pytest.main([*given, *tests], plugins=[Quick()]))
