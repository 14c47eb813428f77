"""A prefix cache alone, no scheduler and no time: pagedsim's curve and allocator, and others.

The same blocks in the same run: the curve of `pagedsim curve` over all capacities, replays of one
capacity, the prefix-cached allocator (every request admitted and released, one after another),
and `kvcache-simulator`'s two back ends. Its hit tokens must be equal to the curve's: LRU, FIFO (in
the order of the prompt) and the optimum, over the second half of the requests. A rate is look-ups
of blocks a second; reading the file is in none, working out keys is in all of pagedsim's.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, imports, machine, process, seconds, table, timed

from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.ranked import RankedPaged
from pagedsim.analysis.curve import Lookups
from pagedsim.trace import Trace, load
from pagedsim.trace.content import Content, blocks, foresee

TOUCH = {"lru": "leaf", "fifo": "root", "optimal": "leaf"}


class Alone:
    """A request that is admitted whole and released at once."""

    __slots__ = ("_content", "id", "prompt", "tokens")

    def __init__(self, content: Content, row: int, prompt: int) -> None:
        self._content, self.id = content, row
        self.prompt = self.tokens = prompt

    def keys(self, block: int) -> Any:
        return self._content.keys(self.id, block)

    def stretches(self, block: int) -> list[tuple[int, int]]:
        return self._content.stretches(self.id, block)


def allocator(trace: Trace, block: int, capacity: int, evict: str) -> int:
    """Every prompt through the allocator; the blocks that were hit."""
    content = Content(trace)
    if evict == "lru":
        pool = PrefixPaged(capacity + 1, block=block)
    else:
        pool = RankedPaged(capacity + 1, block=block, evict=evict)
    foresee(pool, content, trace.prompt, ())
    found = 0
    for row, prompt in enumerate(trace.prompt.tolist()):
        seq: Any = Alone(content, row, prompt)
        found += pool.cached(seq) // pool.block
        assert pool.admit(seq, prompt)
        pool.release(seq)
    assert pool.usage().held == 0
    return found


def write(trace: Trace, block: int, path: Path) -> None:
    """The trace as kvcache-simulator reads it."""
    rows, key, _ = blocks(trace, block)
    with path.open("w", encoding="utf-8") as out:
        for row, prompt in enumerate(trace.prompt.tolist()):
            ids = key[rows[row] : rows[row + 1]].tolist()
            entry = {"block_size": block, "input_length": prompt, "hash_ids": ids}
            out.write(json.dumps(entry) + "\n")


def curve(trace: Trace, block: int, policy: str, at: list[int]) -> Any:
    """Hit tokens of the second half at each capacity; for LRU the exact curve is made."""
    return Lookups(trace, block=block, touch=TOUCH[policy], warmup=0.5).hits(policy, at)


def main(argv: list[str] | None = None) -> None:
    """Run and print."""
    parser = arguments(__doc__, repeat=3)
    parser.add_argument("--block", type=int, default=16, help="tokens a block  [16]")
    parser.add_argument("--capacities", help="in blocks, with commas  [12 of them]")
    parser.add_argument("--kvcache", default=sys.executable, help="Python of kvcache-simulator")
    parser.add_argument("--backends", default="cpp,python", help="of it  [cpp,python]")
    options = parser.parse_args(argv)
    trace, block, repeat = load(options.trace, limit=options.limit), options.block, options.repeat
    found = blocks(trace, block)
    lookups, distinct = len(found.key), len(np.unique(found.key))
    longest = int(-(-trace.prompt.max() // block))
    words = options.capacities
    at = [int(word) for word in words.split(",")] if words else spread(longest, distinct)
    print(f"{machine()}\n{trace}\n{lookups:,} blocks of {block}, {distinct:,} different")
    print(f"capacities {', '.join(f'{capacity:,}' for capacity in at)}\n")
    rows: list[tuple[str, float, int]] = []  # what, seconds, replays

    def measure(what: str, replays: int, call: Any) -> Any:
        runs = [timed(call) for _ in range(repeat)]
        print(f"{what}: {seconds([s for s, _ in runs])}")
        rows.append((what, min(s for s, _ in runs), replays))
        return runs[-1][1]

    middle = max(at[len(at) // 2], longest)
    one = [middle]
    hits = {}
    whole = measure("curve, lru, every capacity", 1, lambda: curve(trace, block, "lru", at))
    hits["lru"] = whole.tokens
    for policy in ("fifo", "optimal"):
        measure(f"curve, {policy}, one capacity", 1, lambda p=policy: curve(trace, block, p, one))
        hits[policy] = measure(
            f"curve, {policy}, {len(at)} capacities",
            len(at),
            lambda p=policy: curve(trace, block, p, at),
        ).tokens
    for evict in ("lru", "fifo", "optimal"):
        measure(f"allocator, {evict}", 1, lambda e=evict: allocator(trace, block, middle, e))
    if imports(options.kvcache, "kvcache_sim"):
        rows += others(trace, block, at, hits, options)
    else:
        print("kvcache-simulator is not installed here, so it is not measured")
    print()
    first = rows[0][1]
    cells = [
        (what, f"{s:.2f}", f"{lookups * n / s / 1e6:.1f}", f"{s / n / first:.2f}")
        for what, s, n in rows
    ]
    table(("own time", "s", "M look-ups a s", "one replay ÷ the curve"), cells)


def spread(longest: int, distinct: int) -> list[int]:
    """Twelve capacities from the longest prompt to two thirds of all blocks."""
    top = max(longest + 12, distinct * 2 // 3)
    return sorted({round(longest * (top / longest) ** (step / 11)) for step in range(12)})


def others(
    trace: Trace, block: int, at: list[int], hits: dict[str, Any], options: Any
) -> list[tuple[str, float, int]]:
    """kvcache-simulator's seconds; its hit tokens must be those of the curves."""
    driver = Path(__file__).with_name("kvcache_driver.py")
    rows, compared = [], 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        write(trace, block, path)
        told = (",".join(map(str, at)), ",".join(TOUCH), options.backends, "1")
        ran = process([options.kvcache, str(driver), str(path), *told], PYTHONPATH="")
    read, *runs = [json.loads(line) for line in ran.out.splitlines()]
    assert read["requests"] == len(trace)
    for run in runs:
        policy = run["policy"]
        for ours, theirs in zip(hits[policy].tolist(), run["hit_tokens"], strict=True):
            assert theirs is None or ours == theirs, (policy, ours, theirs)
            compared += theirs is not None
        print(f"kvcache-simulator, {run['backend']}, {policy}: {run['cpu_s']:.3f} s")
        rows.append((f"kvcache {run['backend']}, {policy}", run["cpu_s"], len(at)))
    print(f"{compared} hit counts of kvcache-simulator equal to the curves'")
    return rows


if __name__ == "__main__":
    main()
