"""Work in several processes of this machine, results in the order in which it was asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from pagedsim.errors import InputError

R = TypeVar("R")


def in_processes(
    function: Callable[..., R], cases: Sequence[tuple[Any, ...]], jobs: int
) -> Iterator[R]:
    """``function(*case)`` of each case, in at most `jobs` processes.

    Function and cases are pickled; large arrays are shared. Errors of the function are raised
    here. InputError where a process was killed.
    """
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    calls = (delayed(function)(*case) for case in cases)
    with warnings.catch_warnings():
        for said in ("A worker stopped", r"\d+ tasks which were still being processed"):
            warnings.filterwarnings("ignore", said, UserWarning)
        results = Parallel(n_jobs=min(jobs, len(cases)), return_as="generator")(calls)
        try:
            yield from results
        except BrokenProcessPool:
            raise InputError(
                "a process was killed at its work (is there enough memory?): give fewer --jobs"
            ) from None
        finally:
            with suppress(Exception):
                results.close()


__all__ = ["in_processes"]
