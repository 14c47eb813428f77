"""From gathered columns to a `Trace`: hashes become dense token ids, turns their parents.

Where a turn's prompt holds an earlier prompt and its answer as tokens, the answer's ids are those
at that place of the prompt, and the block in which the earlier prompt ends is the one that goes
on there, so that a prefix cache finds what it would have found.
"""

from __future__ import annotations

import itertools
from array import array
from typing import Any

import numpy as np

from pagedsim.protocols import Int64
from pagedsim.trace.logs.gather import EXACT, LETTERS, NAMED, NEXT_TURN, NONE, SAME, Gatherer
from pagedsim.trace.rows import since_first
from pagedsim.trace.trace import Trace

_EPOCH_NS = 10**18
_SIZES = tuple(2**power for power in range(14))


class Unclear(Exception):
    """What cannot be told from all records together."""


def assemble(
    rows: Gatherer, name: str, *, named_block: int | None, drop_duplicates: bool, words: str
) -> Trace:
    """The trace of all rows but those that failed. Raises Unclear."""
    rows.flush()
    dropped = np.frombuffer(bytes(rows.dropped), np.uint8)
    prompt, output = _column(rows.prompt), _column(rows.output)
    keep = (dropped != 1) & (output != 0)
    if drop_duplicates:
        keep &= dropped != 2
    if rows.unasked:
        raise Unclear(
            f"{len(rows.unasked)} answers have no request: give the batch's input file too"
        )
    if not keep.any():
        raise Unclear("no request that was answered")
    if (lacking := int((keep & (output < 0)).sum())) > 0:
        raise Unclear(f"{lacking} requests have no answer: give the batch's output file too")
    prompt, output = np.maximum(prompt, 1), np.maximum(output, 1)
    arrival, timed, notes = _arrivals(_column(rows.time), keep)
    session, parent = _turns(rows, arrival, timed)
    think = _thinks(rows, parent)
    size = _named_block(rows, prompt, named_block)
    runs, outputs = _contents(rows, prompt, output, size)
    notes = [*notes, *_notes(rows, keep, dropped, drop_duplicates)]
    whole = Trace.build(
        name,
        np.where(keep, arrival, arrival[keep].max(initial=0)),
        prompt,
        output,
        runs=runs,
        output_token=outputs,
        columns={
            "samples": _column(rows.samples),
            "session": session,
            "parent": parent,
            "think_ns": think,
            "priority": np.where(keep, 0, 1),  # a mark that is sorted along
        },
        format="log",
        timed=timed,
        load="recorded arrivals" if timed else "no arrivals: all at time 0",
        notes=(f"from {words}", *notes),
        dropped=int((~keep).sum()),
        extra={"block": size or rows.block} if runs is not None else {},
    )
    kept = whole.take(np.flatnonzero(whole.priority == 0))
    return kept


def _column(values: Any) -> Int64:
    return np.frombuffer(values.tobytes(), np.int64) if len(values) else np.zeros(0, np.int64)


def _arrivals(time: Int64, keep: Any) -> tuple[Int64, bool, list[str]]:
    """Times from the first of them, and whether there are any."""
    known = time[keep] >= 0
    if not known.any():
        return np.zeros(len(time), np.int64), False, []
    if not known.all():
        raise Unclear(
            f"{int((~known).sum())} of {len(known)} requests have no time; name where it stands "
            "with --map time=KEY"
        )
    absolute = time[keep] >= _EPOCH_NS
    if absolute.any() and not absolute.all():
        raise Unclear("some times are dates and some are seconds of a clock of their own")
    notes = []
    back = np.diff(time[keep])
    far = back[back < -30 * 60 * 10**9]
    if len(far):
        most = -int(far.min()) // 10**9
        notes.append(
            f"{len(far)} times go back by more than half an hour (most: {most:,} s): several "
            "files, or a clock that was changed"
        )
    first = since_first(np.where(keep, time, time[keep].min()))
    if not absolute.any():
        return np.maximum(time, 0), True, notes
    return first, True, notes


def _turns(rows: Gatherer, arrival: Int64, timed: bool) -> tuple[Int64, Int64]:
    """Sessions and parents: as the log says, else by content."""
    session, parent = _column(rows.session).copy(), _column(rows.parent).copy()
    base, kind = _column(rows.base), _column(rows.kind)
    following = int(session.max(initial=-1)) + 1
    for row in np.flatnonzero(base >= 0).tolist():
        before = int(base[row])
        if kind[row] == SAME:
            session[row] = session[before] if session[row] < 0 else session[row]
            parent[row] = parent[before] if session[row] == session[before] else -1
            continue
        if session[before] < 0 and session[row] < 0:
            session[before] = following
            following += 1
        if session[row] < 0:
            session[row] = session[before]
        if session[row] == session[before]:
            parent[row] = before
    order = np.lexsort((np.arange(len(session)), arrival, session))
    for before, row in zip(order[:-1].tolist(), order[1:].tolist(), strict=True):
        if session[row] >= 0 and session[row] == session[before] and parent[row] < 0:
            parent[row] = before
    return session, parent


def _thinks(rows: Gatherer, parent: Int64) -> Int64:
    """From the end of the turn before to the start, -1 where one is unknown."""
    time, end = _column(rows.time), _column(rows.end)
    ends = np.where(parent >= 0, end[parent], -1)
    think: Int64 = np.where((ends >= 0) & (time >= ends), time - ends, -1)
    return think


def _named_block(rows: Gatherer, prompt: Int64, given: int | None) -> int | None:
    """Tokens of a block with a name of its own: given, or the power of two that fits all rows."""
    named = np.flatnonzero(_column(rows.kind) == NAMED)
    if not len(named):
        return None
    counts, tokens = _column(rows.blocks)[named], prompt[named]
    sizes = (given,) if given else _SIZES
    for size in sizes:
        if (counts == -(-tokens // size)).all():
            return int(size)
    for size in sizes:
        if (counts == tokens // size).all():
            return int(size)
    what = f"blocks of {given} tokens do" if given else "no block size does"
    raise Unclear(f"{what} not fit the number of hash_ids in all rows; say --hash-block N")


def _contents(
    rows: Gatherer, prompt: Int64, output: Int64, named: int | None
) -> tuple[tuple[Int64, Int64, Int64] | None, Int64 | None]:
    """Runs of every row and the first id of its output; (None, None) if nothing has content."""
    kind, base, keeps = _column(rows.kind), _column(rows.base), _column(rows.keeps)
    if (kind == NONE).all():
        return None, None
    at, blocks, own = _column(rows.at), _column(rows.blocks), _column(rows.own)
    dense = _dense(rows.hashes)
    sizes = np.where(kind == NAMED, named or rows.block, rows.block)
    stride = int(sizes.max())
    outputs = np.full(len(prompt), -1, np.int64)
    ends = _answers(rows, dense, prompt, output, outputs) if stride == rows.block else {}
    fresh = stride * (int(dense.max(initial=-1)) + 1)
    tokens, lengths, cuts = array("q"), array("q"), array("q", [0])
    for row in range(len(prompt)):
        need, how = int(prompt[row]), int(kind[row])
        if how in (EXACT, LETTERS, NAMED):
            size = int(sizes[row])
            ids = dense[at[row] : at[row] + blocks[row]]
            covered = min(need, int(own[row]), size * len(ids))
            _block_runs(ids, size, stride, covered, ends, tokens, lengths, cuts[-1])
            need -= covered
        elif how in (NEXT_TURN, SAME):
            before = int(base[row])
            first, last = cuts[before], cuts[before + 1]
            for i in range(first, last):
                part = min(need, lengths[i])
                need -= _run(tokens, lengths, tokens[i], part, cuts[-1])
            if how == NEXT_TURN and keeps[row] and need >= output[before]:
                answer = int(output[before])
                need -= _run(tokens, lengths, int(outputs[before]), answer, cuts[-1])
        fresh += _run(tokens, lengths, fresh, need, cuts[-1])
        if outputs[row] < 0:
            outputs[row] = fresh
            fresh += int(output[row])
        cuts.append(len(tokens))
    return (_column(cuts), _column(tokens), _column(lengths)), outputs


def _dense(hashes: array[int]) -> Int64:
    """Hashes as numbers from 0 in order of first appearance."""
    values = np.frombuffer(hashes.tobytes(), np.uint64)
    _, first, where = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    found: Int64 = rank[where]
    return found


def _answers(
    rows: Gatherer, dense: Int64, prompt: Int64, output: Int64, outputs: Int64
) -> dict[int, int]:
    """Fill in `outputs` of answers that stand in a later prompt; partial blocks' other names."""
    ends: dict[int, int] = {}
    size = rows.block
    for row in np.flatnonzero(_column(rows.keeps) & (_column(rows.kind) == EXACT)).tolist():
        before = rows.base[row]
        first, rest = divmod(int(prompt[before]), size)
        last = (int(prompt[before]) + int(output[before]) - 1) // size
        ids = dense[rows.at[row] + first : rows.at[row] + last + 1]
        if outputs[before] >= 0 or len(ids) <= last - first or (np.diff(ids) != 1).any():
            continue
        if rest:
            partial = int(dense[rows.at[before] + first])
            if ends.setdefault(partial, int(ids[0])) != ids[0]:
                continue
        outputs[before] = size * int(ids[0]) + rest
    return ends


def _block_runs(
    ids: Int64,
    size: int,
    stride: int,
    covered: int,
    ends: dict[int, int],
    tokens: array[int],
    lengths: array[int],
    first: int,
) -> None:
    """Append the runs of whole and partial blocks, `covered` tokens in all."""
    whole, rest = divmod(covered, size)
    used = ids[:whole]
    cuts = [0, *(np.flatnonzero(np.diff(used) != 1) + 1).tolist(), whole]
    if stride == size:
        for start, end in itertools.pairwise(cuts):
            if end > start:
                _run(tokens, lengths, stride * int(used[start]), size * (end - start), first)
    else:
        for number in used.tolist():
            _run(tokens, lengths, stride * number, size, first)
    if rest:
        number = int(ids[whole])
        _run(tokens, lengths, stride * ends.get(number, number), rest, first)


def _run(tokens: array[int], lengths: array[int], token: int, length: int, first: int) -> int:
    """Append one run, as part of the one before it where it goes on from that; its length."""
    if length < 1:
        return 0
    if len(tokens) > first and tokens[-1] + lengths[-1] == token:
        lengths[-1] += length
    else:
        tokens.append(token)
        lengths.append(length)
    return length


def _notes(rows: Gatherer, keep: Any, dropped: Any, drop_duplicates: bool) -> list[str]:
    notes = []
    failed = int((dropped == 1).sum())
    if failed:
        notes.append(f"{failed} requests failed and were left out")
    empty = int((~keep).sum()) - failed - (rows.duplicates if drop_duplicates else 0)
    if empty > 0:
        notes.append(f"{empty} requests have zero output and were left out")
    if rows.duplicates:
        what = "left out" if drop_duplicates else "kept; --drop-duplicates leaves them out"
        notes.append(f"{rows.duplicates} requests are there again: {what}")
    if rows.tokenizer is not None and len(rows.off):
        middle, _ = _spread(rows.off)
        if abs(middle - 1) > 0.01:
            notes.append(
                f"the tokenizer gives {100 * (middle - 1):+.0f} % of the log's own counts "
                "(median), which are kept: is it the model's, with its template?"
            )
    if {LETTERS, NEXT_TURN, SAME} & set(rows.kind):
        notes.append(_estimate(rows))
    if rows.estimated_outputs:
        notes.append(f"{rows.estimated_outputs} outputs are estimated from their texts' length")
    return notes


def _estimate(rows: Gatherer) -> str:
    """What is estimated without a tokenizer, and how far it is likely to be off."""
    text = f"prefixes are estimated from characters, {rows.ratio:.2f} bytes a token"
    if not len(rows.off):
        return (
            f"{text}, a rule of thumb for English text; likely error 30 %, more for code and "
            "other languages: a tokenizer makes it exact"
        )
    _, most = _spread(rows.off)
    return (
        f"{text} (median of the log); likely error {100 * most:.0f} % of a prompt's length "
        "(9 of 10 are nearer)"
    )


def _spread(values: array[float]) -> tuple[float, float]:
    """The median, and the distance from 1 that 9 of 10 do not exceed."""
    off = np.frombuffer(values.tobytes(), np.float64)
    return float(np.median(off)), float(np.quantile(np.abs(off - 1), 0.9))


__all__ = ["Unclear", "assemble"]
