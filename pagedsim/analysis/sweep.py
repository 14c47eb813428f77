"""Run cases into a folder: what is there stays, the rest is run, failures are kept.

How a case is run is the caller's: a function of a `Case`, of a module, for it goes to other
processes. Workers write their own results, so neither memory nor messages grow with the number of
cases, and a sweep that ends in any way loses only what was under way. Several sweeps may fill one
folder (`analysis.store`); one that finds a case claimed does others, and comes back to it.
"""

from __future__ import annotations

import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from pagedsim.analysis.results import Result
from pagedsim.analysis.store import Case, Failure, State, Store
from pagedsim.analysis.sweep_on import cluster, killed
from pagedsim.errors import InputError, PagedsimError

Run: TypeAlias = Callable[[Case], Result]
Told: TypeAlias = Callable[[int, int], None]

POLL_S = 1.0  # how often claims of others are looked at when nothing else is left
_DONE, _FAILED, _CLAIMED, _UNWRITABLE = "done", "failed", "claimed", "unwritable"
_TRIES = 3  # times that a pool may break with nothing done


class Swept(NamedTuple):
    """What came of a sweep: all by key, in the order of the cases."""

    there: list[str]  # already there, and sound
    ran: list[str]
    damaged: list[str]  # found damaged, and run again
    failed: dict[str, Failure]
    idle: list[str]  # there or ran, and replayed nothing: every request was refused


def sweep(
    store: Store,
    cases: Sequence[Case],
    run: Run,
    *,
    jobs: int = 1,
    backend: str = "local",
    again: bool = False,
    told: Told | None = None,
) -> Swept:
    """Have a result of every case in `store`, or a failure; told (done, total) as it goes on.

    `jobs` processes on this machine, or what `backend` has: ``dask:ADDRESS``, ``ray`` or
    ``ray:ADDRESS``. Raises InputError where the folder holds results of another version (with
    `again` they are run again) and where a result cannot be written; what is done by then stays.
    """
    pool = cluster(backend, jobs)
    store.open()
    states = {case.key: store.state(case.key) for case in cases}
    others = [key for key, state in states.items() if state is State.OTHER_VERSION]
    if others and not again:
        raise InputError(_other_version(store, others))
    there = [key for key, state in states.items() if state is State.DONE]
    damaged = [key for key, state in states.items() if state is State.DAMAGED]
    store.write_plan(cases)
    work = _Work(store, run, told or (lambda done, total: None), len(there), len(cases))
    with pool as settings:
        work.all([case for case in cases if states[case.key] is not State.DONE], settings)
    done = work.ran.union(there)
    return Swept(
        there=there,
        ran=[case.key for case in cases if case.key in work.ran],
        damaged=damaged,
        failed={case.key: work.failed[case.key] for case in cases if case.key in work.failed},
        idle=[case.key for case in cases if case.key in done and store.idle(case.key)],
    )


class _Work:
    """What is being done, and how far it is."""

    def __init__(self, store: Store, run: Run, told: Told, done: int, total: int) -> None:
        self.ran: set[str] = set()
        self.failed: dict[str, Failure] = {}
        self._store, self._run, self._told = store, run, told
        self._before, self._total = done, total

    def all(self, cases: list[Case], jobs: dict[str, Any]) -> None:
        """Until none is left, others' included."""
        self._tell()
        left, fruitless = cases, 0
        while left:
            before = len(left)
            left, suspects = self._some(left, jobs)
            fruitless = 0 if suspects or len(left) < before or self._others(left) else fruitless + 1
            if fruitless == _TRIES:
                raise InputError("processes for the runs end before they do anything: see --jobs 1")
            for case in suspects:  # one of them killed its process: each alone, to find out which
                more, killed = self._some([case], {**jobs, "n_jobs": max(2, jobs["n_jobs"])})
                left += more
                if killed:
                    said = "its process was killed (is there enough memory?)"
                    failure = Failure(kind="Killed", message=said)
                    with self._store.claim(case.key):  # what the killed one has left goes with it
                        self._store.fail(case, failure)
                    self._settled(case.key, failure)
            while left and self._others(left):
                time.sleep(POLL_S)
                self._tell()

    def _others(self, cases: list[Case]) -> bool:
        """Whether others are at all of them."""
        return all(self._store.claimed(case.key) for case in cases)

    def _some(self, cases: list[Case], jobs: dict[str, Any]) -> tuple[list[Case], list[Case]]:
        """Those claimed by others, and where a process was killed those that were under way."""
        from joblib import Parallel, delayed

        by_key = {case.key: case for case in cases}
        tried = {case.key: self._store.failed_at(case.key) for case in cases}
        claimed: list[Case] = []
        pool = Parallel(**{"return_as": "generator_unordered", "batch_size": 1, **jobs})
        me = os.getpid() if jobs.get("idle_worker_timeout") else None
        calls = (delayed(work)(self._store, c, self._run, tried[c.key], me) for c in cases)
        with warnings.catch_warnings():
            for said in (
                "A worker stopped",
                r"\d+ tasks (have been successfully|which were still)",
            ):
                warnings.filterwarnings("ignore", said, UserWarning)
            ended = pool(calls)
            try:
                for key, said, failure in ended:
                    case = by_key.pop(key)
                    if said == _UNWRITABLE:
                        raise InputError(failure.message)
                    if said == _CLAIMED:
                        claimed.append(case)
                    else:
                        self._settled(key, failure)
            except Exception as error:
                if not killed(error):
                    raise
                alone = len(cases) == 1
                under_way = [c for c in by_key.values() if alone or self._was_under_way(c.key)]
                rest = [c for c in by_key.values() if c not in under_way]
                return claimed + rest, under_way
            finally:
                with suppress(Exception):
                    ended.close()
        return claimed, []

    def _was_under_way(self, key: str) -> bool:
        """Whether it was left claimed by a process that is no more."""
        return self._store.claim_file(key).exists() and not self._store.claimed(key)

    def _settled(self, key: str, failure: Failure | None) -> None:
        if failure is None:
            self.ran.add(key)
        else:
            self.failed[key] = failure
        self._tell()

    def _tell(self) -> None:
        self._told(self._before + len(self.ran) + len(self.failed), self._total)


def work(
    store: Store, case: Case, run: Run, failed_at: int, parent: int | None
) -> tuple[str, str, Any]:
    """One case, in a worker: its key, how it ended, and a `Failure` where it did not end well.

    A failure that is newer than `failed_at` is another sweep's word on the case, and stands. A
    worker whose `parent` was killed finishes what it is at and begins nothing more.
    """
    if parent is not None and parent not in (os.getpid(), os.getppid()):
        return case.key, _CLAIMED, None
    try:
        with store.claim(case.key) as mine:
            if store.state(case.key) is State.DONE:
                return case.key, _DONE, None
            before = store.failure(case.key)
            if before is not None and store.failed_at(case.key) != failed_at:
                return case.key, _FAILED, before
            if not mine:
                return case.key, _CLAIMED, None
            try:
                result = run(case)
            except Exception as error:
                failure = _failure(error)
                store.fail(case, failure)
                return case.key, _FAILED, failure
            store.succeed(case, result)
            return case.key, _DONE, None
    except InputError as error:
        return case.key, _UNWRITABLE, _failure(error)


def _failure(error: Exception) -> Failure:
    """What a person needs: the message, and where it happened if it is none of ours."""
    message = str(error)
    if not isinstance(error, PagedsimError):
        last = traceback.extract_tb(error.__traceback__)[-1:]
        message = f"{message} ({last[0].filename}:{last[0].lineno})" if last else message
    return Failure(kind=type(error).__name__, message=message)


def _other_version(store: Store, keys: Iterable[str]) -> str:
    from pagedsim.analysis.store import OtherVersion

    keys = list(keys)
    try:
        store.record(keys[0])
    except OtherVersion as error:
        said = str(error)
    more = f" (and {len(keys) - 1} more)" if keys[1:] else ""
    return f"{said}{more}: give another folder, or --again to run them again"


def summary(cases: Sequence[Case], store: Store) -> Iterator[tuple[Case, State, bool]]:
    """How each case stands, and whether somebody is at it."""
    for case in cases:
        yield case, store.state(case.key), store.claimed(case.key)


__all__ = ["POLL_S", "Run", "Swept", "summary", "sweep", "work"]
