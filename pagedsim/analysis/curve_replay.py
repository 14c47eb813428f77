"""Replays of a prefix cache of one capacity under FIFO, LFU and the optimum; O(runs) each.

A request looks up its blocks (a hit is the longest run of cached ones from the start), then
touches them one by one, the last one first (leaf) or the first one first (root). A block that is
not there is put in, and where the cache is full, one is evicted for it:

- `fifo`: the one that was put in first; a touch changes nothing.
- `lfu`: the one touched least often since it was put in, of these the one touched longest ago.
- `optimal`: the one whose next look-up is furthest away, of these the one deepest in its prompt;
  what comes in may be that one.

All blocks of a run (`curve_runs`) are treated alike up to the point where room ends, so a cache is
a number a run. Each replay returns the blocks hit by every request.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace

from pagedsim.analysis.curve_runs import Paths

NEVER = 1 << 62


def fifo(paths: Paths, capacity: int, *, leaf: bool = True) -> list[int]:
    """The cache is the last `capacity` blocks put in, so a count of them says what is there.

    A run is put in as a whole or not at all: if the first of its blocks to be touched is gone,
    putting it in evicts the oldest block, and that is the run's next, and so on.
    """
    length = paths.length
    number = [-NEVER] * len(length)  # of the run's first block to be put in
    count = 0
    hits = []
    for path, asked in zip(paths.paths, paths.asked, strict=True):
        oldest = count - capacity
        hit = 0
        for run in path[:asked]:
            whole = length[run]
            kept = number[run] - oldest + (whole if leaf else 0)  # leaf first: the root goes last
            if not leaf and kept >= 0:
                kept = whole
            if kept < whole:
                hit += max(kept, 0)
                break
            hit += whole
        hits.append(hit)
        for run in reversed(path) if leaf else path:
            if number[run] < count - capacity:
                number[run] = count
                count += length[run]
    return hits


def lfu(paths: Paths, capacity: int) -> list[int]:
    """Leaf first. Whoever touches a block touches those before it, later; so a block is evicted
    before any block in front of it, and what is cached of a run is a stretch from its start,
    touched less often towards its end: a list of `[touches, blocks]`.
    """
    length, depth = paths.length, paths.depth
    pieces: list[list[list[int]]] = [[] for _ in length]
    cached = [0] * len(length)
    last = [-1] * len(length)
    heap: list[tuple[int, int, int, int]] = []  # touches of a run's last piece, last, -depth, run
    size = 0
    hits = []
    for request, (path, asked) in enumerate(zip(paths.paths, paths.asked, strict=True)):
        hits.append(_hit(path, asked, cached, length))
        missing = sum(length[run] - cached[run] for run in path)
        over = size + missing - capacity
        entered = size < capacity  # some new block is in, with one touch, before any is evicted
        own = set(path)
        while over > 0 and heap:
            touches, seen, _, run = heap[0]
            if not pieces[run] or pieces[run][-1][0] != touches or last[run] != seen:
                heappop(heap)
                continue
            piece = pieces[run][-1]
            take = piece[1] if run in own else min(over, piece[1])
            if touches > 1:
                if entered:
                    break  # from here on the request's own new blocks evict each other
                take = 1
            entered = True
            piece[1] -= take
            cached[run] -= take
            size -= take
            if run in own:
                missing += take  # evicted before its turn comes: put in again
            else:
                over -= take
            if not piece[1]:
                pieces[run].pop()
                if pieces[run]:
                    heapreplace(heap, (pieces[run][-1][0], seen, -depth[run], run))
                else:
                    heappop(heap)
        new = min(missing, capacity - size)  # those put in last, which are the first of the prompt
        size += new
        for run in path:
            for piece in pieces[run]:
                piece[0] += 1
            if new and (more := min(new, length[run] - cached[run])):
                pieces[run].append([1, more])
                cached[run] += more
                new -= more
            last[run] = request
            if pieces[run]:
                heappush(heap, (pieces[run][-1][0], request, -depth[run], run))
    return hits


def optimal(paths: Paths, capacity: int) -> list[int]:
    """The most hits in all that any prefix cache of this capacity can have.

    Between two requests a block is worth keeping for its next look-up, an interval of time; of
    intervals with at most `capacity` over any point most are kept by dropping, where there are too
    many, the one that ends last. A block's interval never ends before that of the block in front
    of it, and falls first where they end together; so what is kept is whole from the start, and
    every kept interval is a hit. Where the next touch is no look-up the block is dropped.
    """
    length, depth = paths.length, paths.depth
    following = _following(paths)
    kept = [0] * len(length)
    due = [NEVER] * len(length)
    heap: list[tuple[int, int, int]] = []
    size = 0
    hits = []
    for path, asked, after in zip(paths.paths, paths.asked, following, strict=True):
        hits.append(_hit(path, asked, kept, length))
        for run, when in zip(path, after, strict=True):
            size -= kept[run]
            due[run] = when
            kept[run] = 0
            if when != NEVER:
                kept[run] = length[run]
                size += length[run]
                heappush(heap, (-when, -depth[run], run))
        while size > capacity:
            when, _, run = heap[0]
            if due[run] == -when:
                take = min(kept[run], size - capacity)
                kept[run] -= take
                size -= take
                if kept[run]:
                    break
            heappop(heap)
    return hits


def _hit(path: list[int], asked: int, cached: list[int], length: list[int]) -> int:
    hit = 0
    for run in path[:asked]:
        hit += cached[run]
        if cached[run] < length[run]:
            break
    return hit


def _following(paths: Paths) -> list[list[int]]:
    """For every touch the request that touches the run next, NEVER if it does not look it up."""
    ahead = [NEVER] * len(paths.length)
    found: list[list[int]] = []
    for request in range(len(paths.paths) - 1, -1, -1):
        path, asked = paths.paths[request], paths.asked[request]
        found.append([ahead[run] for run in path])
        for index, run in enumerate(path):
            ahead[run] = request if index < asked else NEVER
    return found[::-1]


__all__ = ["fifo", "lfu", "optimal"]
