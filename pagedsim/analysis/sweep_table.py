"""A folder's results as one table: a row a run, options and every number as columns.

`key`, `name` and `error` say which run it is and what went wrong; ``option.NAME`` are its options,
those included that some run has left at the default; all else has the path that it has in the
result file (``memory.waste``, ``latency.ttft_s.p99``, ``trace.requests``, …; docs/model.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pagedsim.analysis.results import Result
from pagedsim.analysis.store import Case, Failure, State, Store
from pagedsim.errors import InputError
from pagedsim.files import write_whole

if TYPE_CHECKING:
    import polars as pl

_LEFT_OUT = frozenset(
    {"schema", "runs", "name", "refused_requests", "truncated_requests", "notes", "provenance"}
)


class Collected(NamedTuple):
    """Rows, and what is not among them: names of cases, and files of results."""

    rows: list[dict[str, Any]]
    missing: list[str]  # of the last grid, neither done nor failed
    damaged: list[str]
    other_version: list[str]
    earlier: int  # rows of results that are not of the last grid


def collect(store: Store, defaults: Mapping[str, Any]) -> Collected:
    """All sound results of `store`: those of the last grid in its order, then others by key.

    `defaults` are those of the options that cases leave out.
    """
    cases = {case.key: case for case in store.plan().cases}
    found = Collected([], [], [], [], 0)
    earlier = [key for key in store.found() if key not in cases]
    kept: list[tuple[Case, Result | None, Failure | None]] = []
    for key in [*cases, *earlier]:
        state = store.state(key)
        if state is State.DONE:
            record = store.record(key)
            kept.append((cases.get(key, record.case), record.result, None))
        elif state is State.FAILED and key in cases:
            kept.append((cases[key], None, store.failure(key)))
        elif state is State.ABSENT:
            found.missing.append(cases[key].name)
        else:
            lost = found.damaged if state is State.DAMAGED else found.other_version
            lost.append(os.fspath(store.file(key)))
    options = sorted({name for case, _, _ in kept for name in case.config})
    for case, result, failure in kept:
        row: dict[str, Any] = {"key": case.key, "name": case.name}
        row["error"] = None if failure is None else f"{failure.kind}: {failure.message}"
        row |= {f"option.{name}": case.config.get(name, defaults.get(name)) for name in options}
        found.rows.append(row if result is None else row | numbers(result))
    return found._replace(earlier=sum(case.key not in cases for case, _, _ in kept))


def numbers(result: Result) -> dict[str, Any]:
    """Every number and word of a result with one run, by its path."""
    (run,) = result.runs
    row: dict[str, Any] = {"allocator": run.name}
    _flatten("", msgspec.to_builtins(run), row)
    _flatten("trace.", msgspec.to_builtins(result.trace), row)
    _flatten("device.", msgspec.to_builtins(result.device), row)
    row["trace.name"] = result.trace.name
    row["estimates"] = "; ".join(run.provenance.estimates)
    row["version"] = run.provenance.version
    return row


def _flatten(path: str, value: Mapping[str, Any], row: dict[str, Any]) -> None:
    for key, inner in value.items():
        if key in _LEFT_OUT:
            continue
        if isinstance(inner, dict):
            _flatten(f"{path}{key}.", inner, row)
        elif not isinstance(inner, list | tuple):
            row[f"{path}{key}"] = inner


def frame(rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    """The rows as a frame; a column that no row has a value in is one of numbers."""
    import polars as pl

    made = pl.DataFrame(list(rows), infer_schema_length=None, strict=False)
    empty = [name for name, kind in made.schema.items() if kind == pl.Null]
    kinds = {name: pl.String if name == "error" else pl.Float64 for name in empty}
    return made.cast(kinds)  # type: ignore[arg-type]


def write(path: str | os.PathLike[str], rows: list[dict[str, Any]]) -> None:
    """Write a Parquet file whole or not at all; InputError where there are no rows."""
    if not rows:
        raise InputError(f"{path}: not written: there are no results yet")
    made = frame(rows)
    with write_whole(path) as file:
        made.write_parquet(file)


__all__ = ["Collected", "collect", "frame", "numbers", "write"]
