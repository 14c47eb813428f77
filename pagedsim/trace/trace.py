"""A request trace: read-only columns, a row a request, sorted by arrival.

Units: times are int64 nanoseconds from the first arrival of the file; lengths are tokens.

*Content* is what prefix sharing needs. A prompt is a list of runs ``(first id, length)`` of
virtual token ids: the run (f, n) stands for the tokens f, f+1, …, f+n-1. Row i's runs are the
half-open range ``run_rows[i] : run_rows[i + 1]`` of `run_token` and `run_length`, and their
lengths add up to ``prompt[i]``. An output is the one run ``(output_token[i], output[i])``.
Two tokens are equal when their ids are; a trace without content has fresh ids everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pagedsim.errors import InputError
from pagedsim.protocols import Int64
from pagedsim.trace import samples
from pagedsim.trace.samples import Forks


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """Requests sorted by arrival. Build one with `Trace.build`, which fills in what is missing.

    `salt` (0 = none), `priority` (smaller is more urgent), `samples` (parallel outputs of one
    prompt), `beam` (1: they are beams), `session` (-1 = none), `parent` (row of the previous turn,
    -1 = none) and `think_ns` (from the parent's finish to this arrival, -1 = unknown) are per row.
    `sample_output` (tokens of each sample, row by row; None: all `output`, which is the longest of
    them) and `forks` (of beams) are explained in `trace.samples`. `timed` is False for
    a trace of lengths alone, whose arrivals must be made. `load` names the load model in words.
    `notes` is what a reader has to say (rows sorted, rows left out), `dropped` how many rows were
    left out, `sha256` that of the decompressed input bytes ("" for a generated trace).
    """

    name: str
    arrival_ns: Int64
    prompt: Int64
    output: Int64
    run_rows: Int64
    run_token: Int64
    run_length: Int64
    output_token: Int64
    salt: Int64
    priority: Int64
    samples: Int64
    session: Int64
    parent: Int64
    think_ns: Int64
    beam: Int64
    sample_output: Int64 | None = None
    forks: Forks | None = None
    timed: bool = True
    load: str = "recorded arrivals"
    format: str = ""
    notes: tuple[str, ...] = ()
    dropped: int = 0
    sha256: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.arrival_ns)

    def __repr__(self) -> str:
        return f"<Trace {self.name!r}: {len(self)} requests, {self.load}>"

    @classmethod
    def build(
        cls,
        name: str,
        arrival_ns: Any,
        prompt: Any,
        output: Any,
        *,
        runs: tuple[Any, Any, Any] | None = None,
        output_token: Any = None,
        columns: dict[str, Any] | None = None,
        **about: Any,
    ) -> Trace:
        """Check, sort by arrival (stable) and freeze.

        `runs` is ``(run_rows, run_token, run_length)``; without it every token is fresh. Fresh
        output ids lie above all others. `columns` holds any of salt, priority, samples, session,
        parent (a row of the arrays given here), think_ns, beam, which may be given by name as well.
        `about` are the other fields. Raises InputError where columns differ in length, lengths
        are below 1, or runs do not add up.
        """
        columns = dict(columns or {})
        for key in _DEFAULTS.keys() & about.keys():
            if key in columns:
                raise InputError(f"{name}: {key} is given twice")
            columns[key] = about.pop(key)
        given = {
            "arrival_ns": _int64("arrival_ns", arrival_ns),
            "prompt": _int64("prompt", prompt),
            "output": _int64("output", output),
        }
        rows = len(given["arrival_ns"])
        for key, empty in _DEFAULTS.items():
            value = columns.get(key)
            given[key] = np.full(rows, empty, np.int64) if value is None else _int64(key, value)
        if unknown := set(columns) - set(_DEFAULTS):
            known = ", ".join(_DEFAULTS)
            raise InputError(f"{name}: unknown columns {sorted(unknown)}; there are {known}")
        for key, column in given.items():
            if len(column) != rows:
                raise InputError(f"{name}: {key} has {len(column)} rows, arrival_ns has {rows}")
        for key, least in (("arrival_ns", 0), ("prompt", 1), ("output", 1), ("samples", 1)):
            if rows and (worst := int(given[key].min())) < least:
                row = int(given[key].argmin())
                raise InputError(f"{name}: row {row}: {key} is {worst}, must be >= {least}")
        content = _content(name, given["prompt"], given["output"], runs, output_token)
        if about.get("sample_output") is not None:
            about["sample_output"] = _int64("sample_output", about["sample_output"])
        if about.get("forks") is not None:
            about["forks"] = Forks(*(_int64("forks", column) for column in about["forks"]))
        fields: dict[str, Any] = {**given, **content, **about}
        made = cls(name=name, **fields)
        samples.checked(name, made)
        return made._sorted()._freeze()

    def _sorted(self) -> Trace:
        arrivals = self.arrival_ns
        late = np.flatnonzero(arrivals[1:] < arrivals[:-1])
        if not len(late):
            return self
        note = f"{len(late)} rows arrive before the row above them; sorted by arrival"
        return replace(self.take(np.argsort(arrivals, kind="stable")), notes=(*self.notes, note))

    def take(self, rows: Any) -> Trace:
        """The given rows in the given order, content and parents carried along.

        A parent that is not taken becomes -1. The caller keeps arrivals sorted.
        """
        rows = np.asarray(rows, np.int64)
        counts = np.diff(self.run_rows)[rows]
        run_rows = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        index = np.repeat(self.run_rows[rows] - run_rows[:-1], counts) + np.arange(run_rows[-1])
        where = np.full(len(self) + 1, -1, np.int64)  # the last entry answers for parent -1
        where[rows] = np.arange(len(rows))
        picked = {key: getattr(self, key)[rows] for key in _PER_ROW}
        picked["parent"] = where[picked["parent"]]
        return replace(
            self,
            **picked,
            **samples.taken(self, rows),
            run_rows=run_rows,
            run_token=self.run_token[index],
            run_length=self.run_length[index],
        )._freeze()

    def head(self, requests: int) -> Trace:
        """The first `requests` rows by arrival."""
        return self if requests >= len(self) else self.take(np.arange(requests))

    def with_arrivals(self, arrival_ns: Any, load: str, *, think_ns: Any = None) -> Trace:
        """Other arrivals for the same rows (which are sorted by them), and the load's name."""
        arrivals = _int64("arrival_ns", arrival_ns)
        if len(arrivals) != len(self):
            raise InputError(f"{self.name}: {len(arrivals)} arrivals for {len(self)} rows")
        think = self.think_ns if think_ns is None else _int64("think_ns", think_ns)
        moved = replace(self, arrival_ns=arrivals, load=load, timed=True, think_ns=think)
        order = np.argsort(arrivals, kind="stable")
        return moved.take(order)

    def _freeze(self) -> Trace:
        for key in (*_PER_ROW, "run_rows", "run_token", "run_length"):
            getattr(self, key).setflags(write=False)
        for column in (self.sample_output, *(self.forks or ())):
            if column is not None:
                column.setflags(write=False)
        return self


_DEFAULTS = {
    **{"salt": 0, "priority": 0, "samples": 1},
    **{"session": -1, "parent": -1, "think_ns": -1, "beam": 0},
}
_PER_ROW = ("arrival_ns", "prompt", "output", "output_token", *_DEFAULTS)


def _int64(key: str, values: Any) -> Int64:
    array = np.array(values)  # a copy: what the caller does with the input later is its own affair
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        what = array.dtype if array.ndim == 1 else f"{array.ndim} dimensions"
        raise InputError(f"{key}: a list of whole numbers is needed, not {what}")
    return array.astype(np.int64)


def _content(
    name: str, prompt: Int64, output: Int64, runs: tuple[Any, Any, Any] | None, output_token: Any
) -> dict[str, Int64]:
    rows = len(prompt)
    if runs is None:
        starts = np.concatenate(([0], np.cumsum(prompt + output)))[:-1].astype(np.int64)
        own = starts + prompt
        return {
            "run_rows": np.arange(rows + 1, dtype=np.int64),
            "run_token": starts,
            "run_length": prompt.copy(),
            "output_token": own if output_token is None else _int64("output_token", output_token),
        }
    run_rows, run_token, run_length = (
        _int64(key, value)
        for key, value in zip(("run_rows", "run_token", "run_length"), runs, strict=True)
    )
    if len(run_rows) != rows + 1 or len(run_token) != len(run_length):
        raise InputError(f"{name}: content has {len(run_rows) - 1} rows of runs for {rows} rows")
    total = np.concatenate(([0], np.cumsum(run_length)))
    sums = total[run_rows[1:]] - total[run_rows[:-1]]
    if rows and (sums != prompt).any():
        row = int(np.flatnonzero(sums != prompt)[0])
        raise InputError(f"{name}: row {row}: runs hold {sums[row]} tokens, prompt {prompt[row]}")
    if output_token is None:
        above = int((run_token + run_length).max(initial=0))
        own = above + np.concatenate(([0], np.cumsum(output)))[:-1].astype(np.int64)
    else:
        own = _int64("output_token", output_token)
    return {
        "run_rows": run_rows,
        "run_token": run_token,
        "run_length": run_length,
        "output_token": own,
    }


__all__ = ["Trace"]
