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
for each fork, in order. Member by member, `members` says what it holds.
"""

from __future__ import annotations

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


class Members(NamedTuple):
    """Row i's members are ``first[i] : first[i + 1]`` of the rows of `trace`: what each holds.

    That trace's prompts hold all but a member's last run.
    """

    first: list[int]
    trace: Trace


def members(trace: Trace) -> Members:
    """What every member holds, birth to death, its parents' tokens included. O(members · runs).

    What was recorded as the output is that of sample 0, or of the beams that lead to beam 0 at the
    end; all other tokens are new.
    """
    from pagedsim.trace.trace import Trace

    fresh = int((trace.run_token + trace.run_length).max(initial=0))
    fresh = max(fresh, int((trace.output_token + trace.output).max(initial=0)))
    lengths, forks = outputs(trace).tolist(), trace.forks or no_forks(len(trace))
    first, sample = [0], 0
    found: list[list[tuple[int, int]]] = []
    salts: list[int] = []
    for row in range(len(trace)):
        part = slice(int(trace.run_rows[row]), int(trace.run_rows[row + 1]))
        pairs = zip(trace.run_token[part].tolist(), trace.run_length[part].tolist(), strict=True)
        prompt, count = list(pairs), int(trace.samples[row])
        paths = _paths(lengths[sample : sample + count], forks.of(row))
        recorded = {owner: upto for upto, owner in paths[-1]}
        width = max(upto for path in paths for upto, _ in path)
        for path in paths[:-1]:
            runs, at = list(prompt), 0
            for upto, owner in path:
                known = min(upto, recorded.get(owner, at))
                if known > at:
                    runs.append((int(trace.output_token[row]) + at, known - at))
                    at = known
                if upto > at:
                    runs.append((fresh + owner * width + at, upto - at))
                    at = upto
            found.append(runs)
        fresh += (len(paths) - 1) * width
        sample += count
        first.append(len(found))
        salts += [int(trace.salt[row])] * (first[-1] - first[-2])
    rows = np.concatenate(([0], np.cumsum([len(runs) - 1 for runs in found])))
    flat = [run for runs in found for run in runs[:-1]]
    last = [runs[-1] for runs in found]
    whole = Trace.build(
        trace.name,
        np.zeros(len(found), np.int64),
        [sum(length for _, length in runs[:-1]) for runs in found],
        [length for _, length in last],
        runs=(rows, [token for token, _ in flat], [length for _, length in flat]),
        output_token=[token for token, _ in last],
        salt=salts,
    )
    return Members(first, whole)


def _paths(
    lengths: list[int], forks: dict[int, list[tuple[int, int]]]
) -> list[list[tuple[int, int]]]:
    """Of each member of a row its output as pieces (up to token, by whom); last, beam 0's path.

    The token that was just yielded is a fork's own: it holds what its parent has stored.
    """
    done: dict[int, list[tuple[int, int]]] = {}
    now = [(member, [(length, member)]) for member, length in enumerate(lengths)]
    count = len(now)
    for after, pairs in sorted(forks.items()):
        for slot, _ in pairs:
            member, path = now[slot]
            done[member] = _cut(path, after)
        for slot, parent in pairs:
            own = (lengths[slot], count)
            now[slot] = (count, [*_cut(now[parent][1], after - 1), own])
            count += 1
    done.update(now)
    return [*(done[member] for member in range(count)), now[0][1]]


def _cut(path: list[tuple[int, int]], upto: int) -> list[tuple[int, int]]:
    """The pieces below `upto`."""
    pieces, at = [], 0
    for end, owner in path:
        if at < upto:
            pieces.append((min(end, upto), owner))
        at = end
    return pieces


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
    "Members",
    "checked",
    "forking",
    "members",
    "no_forks",
    "outputs",
    "taken",
    "with_beams",
    "with_samples",
]
