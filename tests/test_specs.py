"""Specs: what is written comes out, and what cannot be meant is refused in words."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedsim import specs
from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.ranked import RankedPaged
from pagedsim.device.device import make_device
from pagedsim.errors import PagedsimError, SpecError
from pagedsim.specs import SHIPPED, make_allocator, make_scheduler, make_steptime, parse

_KEYS = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
_WORDS = st.one_of(
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["true", "false", "buddy", "max", "0.33"]),
    st.text(st.characters(exclude_characters=",&=?:", exclude_categories=["Z", "C"]), max_size=8),
)


@given(st.sampled_from(sorted(SHIPPED)), st.dictionaries(_KEYS, _WORDS, max_size=5))
def test_a_spec_comes_apart_as_it_was_put_together(name: str, words: dict[str, str]) -> None:
    pairs = [f"{key}={word}" for key, word in words.items()]
    built_in = parse(f"{name}:{','.join(pairs)}" if pairs else name)
    assert (built_in.name, built_in.path, built_in.words) == (name, None, words)
    own = parse(f"package.{name}:Class" + (f"?{'&'.join(pairs)}" if pairs else ""))
    assert (own.name, own.path, own.words) == ("Class", f"package.{name}", words)
    assert [*built_in.values] == [*own.values] == [*words]
    assert repr([*built_in.values.values()]) == repr([*own.values.values()])
    assert parse(f"  {built_in.text} ") == built_in or any(v != v for v in built_in.values.values())


@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans()))
def test_values_are_what_they_read_as(value: Any) -> None:
    found = parse(f"paged:x={value}").values["x"]
    assert (found, type(found)) == (value, type(value))


@given(st.text(max_size=30))
def test_any_text_is_a_spec_or_refused(text: str) -> None:
    with contextlib.suppress(SpecError):
        assert parse(text).text == text.strip()


_BUILT_IN = [
    (make, name, [*inspect.signature(parts[name]).parameters])
    for make, parts in (
        (lambda spec: make_allocator(spec, tokens=1000, max_len=100), specs.ALLOCATORS),
        (make_scheduler, specs.SCHEDULERS),
        (
            lambda spec: make_steptime(spec, device=make_device("opt-13b", "a100-40gb")),
            specs.STEPTIMES,
        ),
    )
    for name in parts
    if name != "table"
]


@given(st.sampled_from(_BUILT_IN), st.data())
def test_whatever_the_value_a_part_is_made_or_refused_in_words(part: Any, data: Any) -> None:
    make, name, options = part
    keys = st.sampled_from([*options, "nosuch"])
    words = data.draw(st.dictionaries(keys, _WORDS, max_size=3))
    spec = f"{name}:{','.join(f'{key}={word}' for key, word in words.items())}"
    said = ""
    try:
        make(spec)
    except PagedsimError as error:
        said = str(error).replace(spec, "")
    assert "not supported between" not in said  # Python's words, not ours
    assert "object" not in said


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", ": there is no allocator ''; there are contiguous, paged, radix, slots, and package."),
        (":", ":: there is no allocator ''"),
        ("PAGED", "PAGED: there is no allocator 'PAGED' (did you mean paged?); there are"),
        ("vllm", "vllm: there is no allocator 'vllm'"),
        ("paged:block", "paged:block: 'block' is not key=value"),
        ("paged:block=16,", "paged:block=16,: '' is not key=value"),
        ("paged:=16", "paged:=16: '=16' is not key=value"),
        ("paged:block=16,block=8", "paged:block=16,block=8: block is given twice"),
        ("paged:block=", "paged:block=: block is '', must be a whole number"),
        ("paged:block=true", "paged:block=true: block is 'true', must be a whole number"),
        ("paged:block=1.5", "paged:block=1.5: block is '1.5', must be a whole number"),
        ("paged:block=0", "paged: block is 0, must be >= 1"),
        ("paged:block=5000", "paged: a pool of 0 blocks (null 1) has none to give"),
        ("paged:blocks=5", "paged:blocks=5: paged has no option 'blocks'; it has block, null, "),
        ("paged:prefix=maybe", "paged:prefix=maybe: prefix is maybe, must be on or off"),
        ("paged:evict=fifo", "paged:evict=fifo: evict is 'fifo', which needs prefix=on"),
        ("paged:prefix=on,evict=x", "paged: evict is 'x', must be one of fifo, lfu, lru, mru, op"),
        (
            "radix:evict=optimal",
            "radix: evict is 'optimal', must be one of fifo, lfu, lru, mru, sl",
        ),
        ("radix:evict=own_parts:Ahead", "radix: evict needs the future, which only paged:prefix"),
        (
            "paged:prefix=on,evict=own_parts:Empty",
            "paged:prefix=on,evict=own_parts:Empty: own_parts:Empty is no eviction policy, it has",
        ),
        (
            "radix:evict=own_parts:Raises",
            "radix:evict=own_parts:Raises: Raises cannot be made: RuntimeError: no",
        ),
        ("radix:evict=nosuch:X", "radix:evict=nosuch:X: nosuch cannot be imported: ModuleNotFou"),
        ("paged:free_order=1", "paged: free_order is 1, must be 0.33 or 0.11"),
        ("contiguous:max_len=5", "contiguous:max_len=5: contiguous has no option 'max_len'; it"),
        ("contiguous:place=1", "contiguous: place is 1, must be first, best or buddy"),
        ("slots", "slots: slots needs n"),
        ("slots:n=true", "slots:n=true: n is 'true', must be a whole number"),
        ("slots:n=1001", "slots:n=1001: n must be >= 1 and <= 1000, the slots of the pool"),
        ("a.b", "a.b: an import path looks like package.module:Class?key=value"),
        ("?x=1", "?x=1: an import path looks like"),
        ("nosuch:Class", "nosuch:Class: nosuch cannot be imported: ModuleNotFoundError: "),
        ("pagd:Class", "pagd:Class: pagd cannot be imported: ModuleNotFoundError: No module named"),
        ("no.such:Class", "no.such:Class: no.such cannot be imported: "),
        ("math:nosuch", "math:nosuch: math has no class nosuch"),
        ("math:pi", "math:pi: math has no class pi"),
        ("math:sqrt", "math:sqrt: sqrt "),
        ("own_parts:Raises", "own_parts:Raises: Raises cannot be made: RuntimeError: no"),
        ("own_parts:Leaves", "own_parts:Leaves: Leaves cannot be made: SystemExit: 3"),
        (
            "own_parts:Empty",
            "own_parts:Empty: is no allocator, it has no capacity, longest, cached",
        ),
        ("own_parts:Empty?x=1", "own_parts:Empty?x=1: Empty has no option 'x'; it has none"),
        ("own_raises:X", "own_raises:X: own_raises cannot be imported: RuntimeError: at import"),
        ("own_leaves:X", "own_leaves:X: own_leaves cannot be imported: SystemExit: 3"),
        (
            "own_parts:Typed?n=x",
            "own_parts:Typed?n=x: n is 'x', must be a whole number or a number",
        ),
    ],
)
def test_what_cannot_be_meant(spec: str, message: str, own_parts: None) -> None:
    with pytest.raises(SpecError) as refusal:
        make_allocator(spec, tokens=1000, max_len=100)
    assert str(refusal.value).startswith(message)


@pytest.fixture
def own_parts(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_parts.py").write_text(
        "from pagedsim.alloc.paged import Paged\n"
        "class Raises:\n    def __init__(self): raise RuntimeError('no')\n"
        "class Leaves:\n    def __init__(self): raise SystemExit(3)\n"
        "class Empty:\n    pass\n"
        "class Newest:\n    def rank(self, entry): return -entry.made\n"
        "class Ahead(Newest):\n    foresees = True\n"
        "class Typed:\n    def __init__(self, n: int | float | None = None): pass\n"
        "class Mine(Paged):\n"
        "    def __init__(self, capacity, blocks, max_len, *, block=16, **more):\n"
        "        super().__init__(blocks, block=block)\n"
        "        self.given = capacity, blocks, max_len, more\n"
    )
    (tmp_path / "own_raises.py").write_text("raise RuntimeError('at import')")
    (tmp_path / "own_leaves.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_parts_of_ones_own_get_what_they_need(own_parts: None) -> None:
    made: Any = make_allocator("own_parts:Mine?block=8&x=true&y=1e3", tokens=1000, max_len=100)
    assert made.given == (1000, 125, 100, {"x": True, "y": 1000.0})
    with pytest.raises(SpecError, match="has no option 'max_len'"):
        make_allocator("own_parts:Mine?max_len=5", tokens=1000, max_len=100)


def test_an_eviction_policy_of_ones_own_works_for_tree_and_blocks(own_parts: None) -> None:
    blocks: Any = make_allocator(
        "paged:prefix=on,block=4,evict=own_parts:Newest", tokens=1000, max_len=100
    )
    assert (blocks.block, blocks.foresees) == (4, False)
    ahead: Any = make_allocator("paged:prefix=on,evict=own_parts:Ahead", tokens=1000, max_len=100)
    assert ahead.foresees
    tree: Any = make_allocator("radix:page=4,evict=own_parts:Newest", tokens=1000, max_len=100)
    names = {type(rank.__self__).__name__ for rank in (blocks._rank, ahead._rank, tree.tree.rank)}
    assert names == {"Newest", "Ahead"}
    for name in ("lfu", "fifo", "optimal"):
        assert isinstance(
            make_allocator(f"paged:prefix=on,evict={name}", tokens=1000, max_len=100), RankedPaged
        )
    plain = make_allocator("paged:prefix=on,evict=lru", tokens=1000, max_len=100)
    assert type(plain) is PrefixPaged


def test_pools_are_of_the_slots_given() -> None:
    paged = make_allocator("paged:block=16,null=0", tokens=1000, max_len=100)
    assert isinstance(paged, Paged)
    assert paged.capacity == 992
    contiguous = make_allocator("contiguous:place=buddy,reserve=exact", tokens=1000, max_len=100)
    assert isinstance(contiguous, Contiguous)
    assert contiguous.capacity == 1000
    with pytest.raises(SpecError, match="places, must be <= 67,108,864"):
        make_allocator("slots:n=1000000000", tokens=1 << 40, max_len=100)


def test_limits_of_the_device_where_the_spec_gives_none() -> None:
    made: Any = make_scheduler("vllm:max_seqs=5", max_seqs=9, max_batched_tokens=99)
    assert (made.max_seqs, made.max_batched_tokens) == (5, 99)
    made = make_scheduler("static", max_seqs=9, max_batched_tokens=99)
    assert made.max_seqs == 9
    made = make_scheduler("vllm:chunked=false,full_input=0")
    assert (made.chunked, made.full_input) == (False, False)


def test_a_roofline_needs_a_device() -> None:
    with pytest.raises(SpecError, match="roofline needs device"):
        make_steptime("roofline")
