"""What every sample and beam of a trace holds, its parents' tokens included."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pagedsim.trace.samples import no_forks, outputs
from pagedsim.trace.trace import Trace


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


__all__ = ["Members", "members"]
