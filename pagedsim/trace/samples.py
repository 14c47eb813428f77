"""Several outputs of one prompt: parallel samples, and beams with their births and deaths.

A row of a trace has `samples` outputs. Where ``beam`` is 0 they are independent, and each may have
a length of its own (`Trace.sample_output`); where it is 1 they move together, and `Forks` say who
is dropped for whom. With two beams and three tokens each::

    after 1 token       after 2             end
    beam 0  --a--+------- dropped
                 |        +------c--        beam 0: a fork of 1, (after 2, slot 0, parent 1)
    beam 1       +--b-----+------b--        beam 1: a fork of 0, (after 1, slot 1, parent 0)
    beam 1  --x-- dropped

Every path from birth to death is a *member* of the request: its first `samples` members, then one
for each fork, in order; `trace.lineage` says what each holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pagedsim.errors import InputError, SpecError
from pagedsim.protocols import Int64
from pagedsim.trace.draws import stream

if TYPE_CHECKING:
    from pagedsim.trace.trace import Trace

DEATH = 0.1  # chance that a beam dies after a token
_BEAMS = 5  # the purpose of the random stream


class Forks(NamedTuple):
    """Births of beams in CSR form: row i's are ``rows[i] : rows[i + 1]`` of the others.

    After `after` tokens were yielded beam `slot` is dropped, and a fork of beam `parent`, which
    goes on, takes its place. In order of `after`, then `slot`.
    """

    rows: Int64
    after: Int64
    slot: Int64
    parent: Int64

    def of(self, row: int) -> dict[int, list[tuple[int, int]]]:
        """(slot, parent) of the forks of a row, by `after`."""
        found: dict[int, list[tuple[int, int]]] = {}
        for at in range(int(self.rows[row]), int(self.rows[row + 1])):
            pair = (int(self.slot[at]), int(self.parent[at]))
            found.setdefault(int(self.after[at]), []).append(pair)
        return found


def no_forks(rows: int) -> Forks:
    """None in any of so many rows."""
    empty = np.zeros(0, np.int64)
    return Forks(np.zeros(rows + 1, np.int64), empty, empty, empty)


def forking(trace: Trace) -> bool:
    """Whether some request has more than one output."""
    return bool(len(trace)) and int(trace.samples.max()) > 1


def outputs(trace: Trace) -> Int64:
    """int64[Σ samples]: tokens of every sample, row by row."""
    if trace.sample_output is not None:
        return trace.sample_output
    return np.repeat(trace.output, trace.samples)


def outputs_of_rows(trace: Trace) -> Int64:
    """int64[rows]: tokens of all samples of a row together."""
    if trace.sample_output is None:
        return trace.output * trace.samples
    total = np.concatenate(([0], np.cumsum(trace.sample_output)))
    cuts = np.concatenate(([0], np.cumsum(trace.samples)))
    sums: Int64 = np.diff(total[cuts])
    return sums


def with_samples(trace: Trace, samples: int) -> Trace:
    """The same requests, with `samples` outputs each, as long as the recorded one."""
    if samples < 1:
        raise SpecError(f"samples is {samples}, must be >= 1")
    rows = len(trace)
    return replace(
        trace,
        samples=_frozen(np.full(rows, samples, np.int64)),
        beam=_frozen(np.zeros(rows, np.int64)),
        sample_output=None,
        forks=None,
    )


def with_beams(trace: Trace, width: int, *, death: float = DEATH, seed: int = 0) -> Trace:
    """The same requests, each a beam search of `width` as long as the recorded output.

    After each token but the last every beam dies with probability `death`, independently; if all
    would, the last stays. Each is replaced by a fork of a survivor, drawn uniformly. Draws are in
    order of row, token, beam; O(Σ width · output).
    """
    if width < 1:
        raise SpecError(f"beam width is {width}, must be >= 1")
    if not 0 <= death <= 1:
        raise SpecError(f"death is {death}, must be >= 0 and <= 1")
    plain = with_samples(trace, width)
    rows = len(trace)
    rng = stream(seed, _BEAMS)
    steps = trace.output - 1
    dies = rng.random((int(steps.sum()), width)) < death
    dies[dies.all(axis=1), -1] = False
    at, slot = np.nonzero(dies)
    left = (~dies).sum(axis=1)[at]
    drawn = np.minimum((rng.random(len(at)) * left).astype(np.int64), left - 1)
    order = np.argsort(dies, axis=1, kind="stable")  # survivors first, in order
    row_at = np.concatenate(([0], np.cumsum(steps)))
    forks = Forks(
        np.searchsorted(at, row_at).astype(np.int64),
        at - row_at[np.searchsorted(row_at, at, "right") - 1] + 1,
        slot.astype(np.int64),
        order[at, drawn].astype(np.int64),
    )
    beam = np.full(rows, int(width > 1), np.int64)
    return replace(plain, beam=_frozen(beam), forks=Forks(*map(_frozen, forks)))


def checked(name: str, trace: Trace) -> None:
    """InputError unless samples, their lengths and forks agree."""
    rows = len(trace)
    if rows and not 0 <= int(trace.beam.min()) <= int(trace.beam.max()) <= 1:
        row = int(np.flatnonzero((trace.beam < 0) | (trace.beam > 1))[0])
        raise InputError(f"{name}: row {row}: beam is {trace.beam[row]}, must be 0 or 1")
    if trace.sample_output is not None:
        _check_lengths(name, trace, trace.sample_output)
    if trace.forks is not None:
        _check_forks(name, trace, trace.forks)


def _check_lengths(name: str, trace: Trace, lengths: Int64) -> None:
    wanted = int(trace.samples.sum())
    if len(lengths) != wanted:
        raise InputError(f"{name}: sample_output has {len(lengths)} lengths for {wanted} samples")
    at = np.concatenate(([0], np.cumsum(trace.samples)))
    for row in range(len(trace)):
        part = lengths[at[row] : at[row + 1]]
        if int(part.min()) < 1:
            raise InputError(f"{name}: row {row}: a sample of {part.min()} tokens, must be >= 1")
        if int(part.max()) != trace.output[row] or (
            trace.beam[row] and len(set(part.tolist())) > 1
        ):
            must = "all be" if trace.beam[row] else "be at most"
            raise InputError(
                f"{name}: row {row}: samples of {part.min()} to {part.max()} tokens, must {must} "
                f"the output {trace.output[row]}, the longest of them"
            )


def _check_forks(name: str, trace: Trace, forks: Forks) -> None:
    row = np.repeat(np.arange(len(trace)), np.diff(forks.rows))
    dropped = set(zip(row.tolist(), forks.after.tolist(), forks.slot.tolist(), strict=True))
    before = (-1, 0, -1)
    for at, after, slot, parent in zip(row.tolist(), *(c.tolist() for c in forks[1:]), strict=True):
        here = f"{name}: row {at}: the fork after {after}, of beam {parent} in place of {slot}"
        most = int(trace.samples[at])
        if not trace.beam[at]:
            raise InputError(f"{here}: beam is 0, must be 1 where there are forks")
        if not 1 <= after < trace.output[at]:
            raise InputError(f"{here}: after must be >= 1 and < {trace.output[at]}, the output")
        if not (0 <= slot < most and 0 <= parent < most):
            raise InputError(f"{here}: beams must be >= 0 and < {most}, the samples")
        if (at, after, parent) in dropped:
            raise InputError(f"{here}: beam {parent} is dropped then as well, so it has no forks")
        if before >= (at, after, slot):
            raise InputError(f"{here}: stands after {before[1:]}; must be in order, each once")
        before = (at, after, slot)


def taken(trace: Trace, rows: Int64) -> dict[str, Any]:
    """`sample_output` and `forks` of the given rows."""
    found: dict[str, Any] = {}
    if trace.sample_output is not None:
        cuts = np.concatenate(([0], np.cumsum(trace.samples)))
        found["sample_output"] = _frozen(trace.sample_output[_picked(cuts, rows)[1]])
    if trace.forks is not None:
        forks = trace.forks
        new, index = _picked(forks.rows, rows)
        found["forks"] = Forks(*map(_frozen, (new, *(column[index] for column in forks[1:]))))
    return found


def joined(traces: Iterable[Trace]) -> dict[str, Any]:
    """`sample_output` and `forks` of the rows of some traces, one trace after another."""
    parts = list(traces)
    forks = [trace.forks or no_forks(len(trace)) for trace in parts]
    if all(trace.sample_output is None for trace in parts) and not any(len(f.after) for f in forks):
        return {}
    above = np.concatenate(([0], np.cumsum([len(f.after) for f in forks])))
    rows = [f.rows[:-1] + more for f, more in zip(forks, above, strict=False)]
    columns = [np.concatenate(each) for each in zip(*(f[1:] for f in forks), strict=True)]
    return {
        "sample_output": np.concatenate([outputs(trace) for trace in parts]),
        "forks": Forks(np.concatenate([*rows, above[-1:]]), *columns),
    }


def _picked(cuts: Int64, rows: Int64) -> tuple[Int64, Int64]:
    """The CSR cuts of the given rows, and where their entries are."""
    counts = np.diff(cuts)[rows]
    new = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return new, np.repeat(cuts[rows] - new[:-1], counts) + np.arange(new[-1])


def _frozen(column: Int64) -> Int64:
    column.setflags(write=False)
    return column


__all__ = [
    "DEATH",
    "Forks",
    "checked",
    "forking",
    "joined",
    "no_forks",
    "outputs",
    "outputs_of_rows",
    "taken",
    "with_beams",
    "with_samples",
]
