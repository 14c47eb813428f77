"""Where a sweep runs: processes of this machine, a Dask cluster or a Ray cluster, through joblib.

The clusters are extras; whoever runs one has pagedsim installed on its workers, and a folder of
results that they share.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from pagedsim.errors import InputError, SpecError

_IDLE_S = 10  # after which a process of ours that has nothing to do ends
_ANSWERS_S = 10  # within which a scheduler must answer


def known(backend: str) -> None:
    """SpecError for a backend that there is not."""
    kind, _, address = backend.partition(":")
    if backend != "local" and not (kind == "dask" and address) and kind != "ray":
        raise SpecError(f"backend is {backend!r}, must be local, dask:ADDRESS or ray[:ADDRESS]")


def cluster(backend: str, jobs: int) -> AbstractContextManager[dict[str, Any]]:
    """What joblib's `Parallel` is called with, while the block lasts.

    `backend`: ``local`` (`jobs` processes), ``dask:ADDRESS``, ``ray`` or ``ray:ADDRESS``. SpecError
    for another, or where what it needs is not installed; InputError where no cluster answers.
    """
    known(backend)
    kind, _, address = backend.partition(":")
    if kind == "local":
        return nullcontext({"n_jobs": jobs, "backend": "loky", "idle_worker_timeout": _IDLE_S})
    return _dask(address) if kind == "dask" else _ray(address)


def killed(error: Exception) -> bool:
    """Whether it says that a worker was killed at its work."""
    from joblib.externals.loky.process_executor import BrokenProcessPool

    return isinstance(error, BrokenProcessPool) or type(error).__name__ in (
        "KilledWorker",  # of Dask, when a task has ended several
        "WorkerCrashedError",  # of Ray
    )


@contextmanager
def _dask(address: str) -> Iterator[dict[str, Any]]:
    import joblib

    distributed = _installed("distributed", "dask")
    try:
        client = distributed.Client(address, timeout=_ANSWERS_S)
    except (OSError, ValueError) as error:
        raise InputError(f"dask:{address}: no scheduler answers there: {error}") from None
    try:
        with joblib.parallel_config("dask", client=client):
            yield {"n_jobs": -1}
    finally:
        client.close()


@contextmanager
def _ray(address: str) -> Iterator[dict[str, Any]]:
    import joblib

    ray, adapter = _installed("ray", "ray"), _installed("ray.util.joblib", "ray")
    try:
        ray.init(address=address or None, ignore_reinit_error=True, log_to_driver=False)
    except (ConnectionError, ValueError) as error:
        raise InputError(f"ray:{address}: no cluster answers there: {error}") from None
    adapter.register_ray()
    try:
        with joblib.parallel_config("ray"):
            yield {"n_jobs": -1, "return_as": "list"}  # it can do no other: told at the end
    finally:
        ray.shutdown()


def _installed(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        said = f"backend {extra} needs what is not installed ({error})"
        raise SpecError(
            f"{said}: pip install 'pagedsim[{extra}]', or '.[{extra}]' in a clone"
        ) from None


__all__ = ["cluster", "killed", "known"]
