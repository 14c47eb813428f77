"""A pool that keeps stretches and one that keeps blocks, told the same."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pagedsim.alloc.keyed import KeyedPaged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.stretches import Stretch


class Keys:
    """Numbers of chains of blocks, counted up as they come, so that fresh content counts up."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, tuple[int, ...]], int] = {}

    def of(self, text: tuple[int, ...], block: int) -> list[int]:
        at, found = -1, []
        for start in range(0, len(text) - block + 1, block):
            chained = at, text[start : start + block]
            at = self.numbers.setdefault(chained, len(self.numbers))
            found.append(at)
        return found


class Seq:
    def __init__(self, id: int, text: tuple[int, ...], tokens: int, keys: list[int]) -> None:
        self.id, self.text, self.tokens = id, text, tokens
        self.prompt, self.salt, self.computed = tokens, 0, 0
        self._keys = np.array(keys, np.int64)

    def keys(self, block: int) -> Any:
        return self._keys


class Told(Seq):
    """One that says its keys as stretches."""

    def stretches(self, block: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for key in self._keys.tolist():
            if found and key == sum(found[-1]):
                found[-1] = (found[-1][0], found[-1][1] + 1)
            else:
                found.append((key, 1))
        return found


class Both:
    """Two pools that are told the same, and must show the same."""

    def __init__(self, block: int, count: int, order: str, ours: Any = PrefixPaged) -> None:
        self.block = block
        self.pools = [pool(count, block=block, free_order=order) for pool in (ours, KeyedPaged)]
        self.running: list[Seq] = []
        self.waiting: list[Seq] = []

    def same(self, call: Any) -> Any:
        ours, theirs = map(call, self.pools)
        assert ours == theirs
        return ours

    def shown(self, pool: Any) -> tuple[Any, ...]:
        return (
            pool.usage(),
            pool.free_blocks(),
            pool.evicted,
            pool.keys_cached(),
            [pool.table(seq) for seq in self.running],
            [pool.room(seq) for seq in self.running],
            [pool.cached(seq) for seq in reversed(self.waiting)],
            pool.kept().tolist(),
        )

    def check(self) -> None:
        self.same(self.shown)
        whole(self.pools[0])

    def release(self, seq: Seq) -> None:
        self.same(lambda pool: pool.release(seq))
        self.running.remove(seq)


def whole(pool: Any) -> None:
    """What holds of all stretches of a `PrefixPaged`, looked at one by one."""
    listed: dict[Stretch, int] = {}
    for held in pool._tables.values():
        assert sum(held.counts) == held.named == sum(len(each.ids) for each in held.listed())
        for stretch in held.listed():
            listed[stretch] = listed.get(stretch, 0) + 1
    free = [stretch for stretch in pool._free if stretch.family is not None]
    assert all(stretch.ids for stretch in pool._free)
    assert all(stretch.holders == count for stretch, count in listed.items())
    assert not any(stretch.holders for stretch in free)
    there = {*free, *listed}
    assert len(there) == len(free) + len(listed)
    known = {each for family in pool._families.values() for each in (*family.found, *family.others)}
    assert known == there
    for first, family in pool._families.items():
        assert family.key == first
        assert family.found or family.others
        assert all(one.end <= two.key for one, two in pairwise(family.found))
        assert all(each.first for each in family.found)
        assert not any(each.first for each in family.others)
        covered = {key for each in family.found for key in range(each.key, each.end)}
        assert all(set(range(each.key, each.end)) <= covered for each in family.others)


def play(data: st.DataObject, forks: bool, made_of: Any = PrefixPaged) -> int:
    """Drive both; how many blocks were evicted."""
    block, count = data.draw(st.integers(1, 2)), data.draw(st.integers(3, 16))
    both = Both(block, count, data.draw(st.sampled_from(["0.33", "0.11"])), made_of)
    keys, made = Keys(), data.draw(st.sampled_from([Seq, Told]))
    kinds = ["admit", "admit", "twin", "grow", "decode", "decode", "release", "look"]
    texts: list[tuple[int, ...]] = []
    for step in range(data.draw(st.integers(1, 40))):
        kind = data.draw(st.sampled_from([*kinds, *["fork"] * forks]))
        running = both.running
        fresh = tuple(range(100 * (step + 1), 100 * (step + 1) + 6 * block))
        if kind == "twin" and running:  # of one that may not be computed, so both will
            text = data.draw(st.sampled_from(running)).text
            admit(data, both, made(step, text, len(text), keys.of(text, block)))
        elif kind in ("admit", "twin", "look") or not running:
            start = data.draw(st.sampled_from([(), *texts]))
            kept = data.draw(st.integers(0, len(start)))
            text = start[:kept] + fresh[: data.draw(st.integers(0 if kept else 1, len(fresh)))]
            texts.append(text)
            seq = made(step, text, data.draw(st.integers(1, len(text))), keys.of(text, block))
            if kind == "look":
                both.waiting.append(seq)
            admit(data, both, seq)
        elif kind == "release":
            both.release(data.draw(st.sampled_from(running)))
        elif kind == "fork":
            parent = data.draw(st.sampled_from(running))
            text = data.draw(st.sampled_from([parent.text, parent.text[: parent.computed] + fresh]))
            fork(both, parent, made(step, text, parent.computed, keys.of(text, block)))
        elif kind == "decode":
            among = data.draw(st.permutations(running))[: data.draw(st.integers(1, 3))]
            decode(both, [seq for seq in among if seq.computed < len(seq.text)])
        else:
            grow(data, both, data.draw(st.sampled_from(running)))
        both.check()
    for seq in list(both.running):
        both.release(seq)
        both.check()
    assert both.pools[0].usage().held == 0
    return int(both.pools[0].evicted)


def admit(data: st.DataObject, both: Both, seq: Seq) -> None:
    tokens = data.draw(st.integers(both.same(lambda pool: pool.cached(seq)) + 1, seq.tokens))
    wants = {"whole": data.draw(st.sampled_from([0, seq.tokens]))}
    wants["spare"] = data.draw(st.integers(0, 2))
    if both.same(lambda pool: pool.admit(seq, tokens, **wants)):
        both.running.append(seq)
        seq.computed = tokens
        if seq in both.waiting:
            both.waiting.remove(seq)
    elif seq not in both.waiting:
        both.waiting.append(seq)


def fork(both: Both, parent: Seq, child: Seq) -> None:
    """Only where `parent` has no block ahead, as an engine forks."""
    child.computed, block = parent.computed, both.block
    if -(-both.same(lambda pool: pool.room(parent)) // block) == -(-parent.computed // block):
        both.same(lambda pool: pool.fork(parent, child, parent.computed))
        both.running.append(child)


def grow(data: st.DataObject, both: Both, seq: Seq) -> None:
    """A chunk, which may be given back before its step is over."""
    tokens = data.draw(st.integers(seq.computed, len(seq.text)))
    if both.same(lambda pool: pool.grow(seq, tokens)):
        seq.tokens = max(seq.tokens, tokens)
        if data.draw(st.booleans()):
            both.check()
            both.release(seq)
        else:
            seq.computed = tokens


def decode(both: Both, seqs: list[Seq]) -> None:
    """A token more for each, as an engine asks for it: a block where one is needed, then keys."""
    rooms = both.same(lambda pool: [pool.room(seq) for seq in seqs])
    asking = [seq for seq, room in zip(seqs, rooms, strict=True) if room == seq.computed]
    given = both.same(lambda pool: pool.extend(asking))
    done = [seq for seq in seqs if seq not in asking[given:]]
    rooms = both.same(lambda pool: [pool.room(seq) for seq in done])
    whole = [seq.computed + 1 for seq in done]
    full = [
        seq
        for seq, room, stored in zip(done, rooms, whole, strict=True)
        if stored == room and stored % both.block == 0
    ]
    both.same(lambda pool: pool.fill(full))
    for seq in done:
        seq.computed += 1
        seq.tokens = max(seq.tokens, seq.computed)
