"""The lesson's numbers: a model that is equal to the bit, and what the device and engine say."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedsim import simulate
from pagedsim.analysis.lesson import attention as tiny
from pagedsim.analysis.lesson import memory, replays
from pagedsim.analysis.lesson.numbers import Lesson, lesson
from pagedsim.analysis.results import TERMS
from pagedsim.device import find_model, make_device
from pagedsim.device.sizing import size
from pagedsim.device.work import work
from pagedsim.errors import DeviceError
from pagedsim.trace import Trace

STEPS: list[tuple[int, int]] = []


@pytest.fixture(scope="module")
def made() -> Lesson:
    STEPS.clear()
    return lesson(lambda done, of: STEPS.append((done, of)))


SEEDS = st.integers(0, 2**32 - 1)
SENTENCES = st.lists(st.integers(0, tiny.WORDS), min_size=1, max_size=tiny.WORDS)


def bits(values: np.ndarray) -> bytes:
    return values.tobytes()


@given(SEEDS, SENTENCES)
def test_with_and_without_a_cache_are_equal_to_the_bit(seed: int, words: list[int]) -> None:
    model, cache = tiny.weights(seed), tiny.Cache()
    for count in range(1, len(words) + 1):
        whole = tiny.forward(model, words[:count])
        more = tiny.forward(model, words[:count], cache)
        assert more.keys.shape == (tiny.LAYERS, 1, tiny.WIDTH)
        assert bits(more.last) == bits(whole.last)
        assert bits(cache.keys) == bits(whole.keys)
        assert bits(cache.values) == bits(whole.values)


@given(SEEDS, SENTENCES, st.data())
def test_a_prompt_at_once_is_the_same_as_word_by_word(
    seed: int, words: list[int], data: st.DataObject
) -> None:
    """Prefill: a cache may be given many positions in one pass."""
    first = data.draw(st.integers(1, len(words)))
    model, cache = tiny.weights(seed), tiny.Cache()
    last = tiny.forward(model, words[:first], cache).last
    if first < len(words):
        last = tiny.forward(model, words, cache).last
    whole = tiny.forward(model, words)
    assert bits(last) == bits(whole.last)
    assert bits(cache.keys) == bits(whole.keys)


def plainly(model: tiny.Weights, words: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same model as a textbook has it, position by position, with `@`."""
    x = [model.words[word] + model.places[at] for at, word in enumerate(words)]
    keys, values = [], []
    for layer in range(tiny.LAYERS):
        k = [each @ model.key[layer] for each in x]
        v = [each @ model.value[layer] for each in x]
        after = []
        for at, each in enumerate(x):
            q, seen = each @ model.query[layer], []
            for head in range(tiny.HEADS):
                part = slice(head * tiny.HEAD_DIM, (head + 1) * tiny.HEAD_DIM)
                scores = [q[part] @ k[i][part] / math.sqrt(tiny.HEAD_DIM) for i in range(at + 1)]
                share = np.exp(np.array(scores))
                share /= share.sum()
                seen.append(sum(s * v[i][part] for i, s in enumerate(share)))
            after.append(each + np.concatenate(seen) @ model.mix[layer])
        x = after
        keys.append(k)
        values.append(v)
    return np.array(keys), np.array(values), x[-1]


@given(SEEDS, SENTENCES)
def test_it_is_attention(seed: int, words: list[int]) -> None:
    model = tiny.weights(seed)
    for ours, theirs in zip(tiny.forward(model, words), plainly(model, words), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9)


def test_an_exchanged_word_changes_its_row_and_in_layer_2_what_comes_after(made: Lesson) -> None:
    whole = made.attention.passes[-1]
    for other in made.attention.swapped:
        for layer in range(tiny.LAYERS):
            changed = [
                at
                for at in range(tiny.WORDS)
                if other.keys[layer][at] != whole.without_keys[layer][at]
                or other.values[layer][at] != whole.without_values[layer][at]
            ]
            last = tiny.WORDS - 1 if layer else other.position
            assert changed == list(range(other.position, last + 1))


def test_the_passes_are_what_the_model_computes(made: Lesson) -> None:
    assert [each.words for each in made.attention.passes] == list(range(1, tiny.WORDS + 1))
    for count, each in enumerate(made.attention.passes, 1):
        whole = tiny.forward(tiny.weights(), list(range(count)))
        assert each.without_keys == whole.keys.tolist()
        assert each.without_last == each.cached_last == whole.last.tolist()
        for layer in range(tiny.LAYERS):
            assert each.cached_keys[layer] == each.without_keys[layer][-1:]
            assert each.cached_values[layer] == each.without_values[layer][-1:]


def test_an_answer_takes_as_many_passes_as_it_has_tokens() -> None:
    """... in the engine as in the counts, whatever the length of the question."""
    for prompt, output in ((1, 1), (8, 13), (300, 5)):
        run = simulate(Trace.build("one", [0], [prompt], [output]), "paged", max_len=1000).run
        assert run.steps == work(output).passes == output


def test_work_is_counted(made: Lesson) -> None:
    assert [each["tokens"] for each in made.work] == [1, 14, 512, 2048]
    for each in made.work:
        n = each["tokens"]
        assert each["refeed_dots"] == sum(t * t for t in range(1, n + 1))
        assert each["cached_dots"] == each["recompute_projections"] == sum(range(1, n + 1))


def test_worked_examples(made: Lesson) -> None:
    """Those of the semantics: 512 KiB a token, 16 and 128 with fewer heads, 2 GiB at 4,096."""
    seven = made.models[0]
    assert (seven.name, seven.kv_bytes_per_token) == ("Llama-2-7B", 512 << 10)
    assert seven.kv_bytes_per_token * 4096 == 2 << 30
    per_token = {kind.name: kind.kv_bytes_per_token["fp16"] for kind in made.kinds}
    assert per_token == {
        "MHA": 512 << 10,
        "GQA": 128 << 10,
        "MQA": 16 << 10,
        "MLA": 576 * 2 * 32,
    }
    for kind in made.kinds:
        assert kind.kv_bytes_per_token["fp16"] == 32 * kind.numbers * 2
        assert kind.kv_bytes_per_token["int4"] * 4 == kind.kv_bytes_per_token["fp16"]
    assert made.dtypes == {"fp16": 16, "fp8": 8, "int4": 4}


def test_rooms_are_what_size_says(made: Lesson) -> None:
    assert len(made.rooms) == len(memory.CARDS) * len(memory.MODELS) * len(memory.DTYPES)
    fitted = 0
    for room in made.rooms:
        token = find_model(room.model).kv_bytes_per_token(room.kv_dtype)
        assert room.kv_bytes_per_token == token
        if room.blocks is None:
            with pytest.raises(DeviceError):
                make_device(room.model, room.card, kv_dtype=room.kv_dtype)
            continue
        said = size(make_device(room.model, room.card, kv_dtype=room.kv_dtype), max_len=4096)
        assert room.blocks == said.device.blocks
        assert room.pool_bytes == said.device.pool_bytes
        assert room.activation_bytes == said.device.activation_bytes
        fitted += 1
    assert 0 < fitted < len(made.rooms)
    for card in made.cards:
        ridge = size(make_device("llama-3.2-1b", card.name)).ridge_flops_per_byte
        assert card.ridge == ridge


def test_replays_have_nothing_to_hide(made: Lesson) -> None:
    """Nothing refused or cut short, and every slot accounted for at every point."""
    runs = made.replays.runs
    assert len(runs) == 3 * 3 * (1 + 4)
    for spread in replays.SPREADS:
        trace = replays.trace(spread)
        assert int((trace.prompt + trace.output).max()) <= min(replays.MAX_LENS)
        assert float(trace.output.mean()) == pytest.approx(replays.OUTPUT, rel=0.02)
    for each in runs:
        assert sum(each.memory.values()) == pytest.approx(1)
        sums = np.sum([each.series.terms[term] for term in TERMS], axis=0)
        assert set(sums.tolist()) <= {0, made.replays.pool}
        assert each.series.at_ns[-1] / 1e9 == each.makespan_s


def test_replays_say_what_the_lesson_says(made: Lesson) -> None:
    by = {(r.max_len, r.spread, r.block): r for r in made.replays.runs}
    for max_len in replays.MAX_LENS:
        for spread in replays.SPREADS:
            whole = by[max_len, spread, 0]
            assert whole.waste_of_held > 0.5
            assert whole.batch_peak == replays.POOL // max_len
            empty = [by[max_len, spread, block].waste_of_held for block in replays.BLOCKS]
            assert empty == sorted(empty)
            assert empty[0] == 0
            for block in replays.BLOCKS:
                paged = by[max_len, spread, block]
                assert paged.waste_of_held < whole.waste_of_held
                assert paged.batch_mean > 2 * whole.batch_mean
                assert paged.makespan_s < whole.makespan_s
                first = by[replays.MAX_LENS[0], spread, block]
                assert paged.memory == first.memory
                assert paged.series == first.series


def test_replays_are_those_of_the_reference_engine(made: Lesson) -> None:
    device = make_device(replays.MODEL, replays.CARD, kv_tokens=replays.POOL)
    for each in made.replays.runs[::11]:
        run = simulate(
            replays.trace(each.spread),
            each.allocator,
            device=device,
            max_len=each.max_len,
            engine="reference",
        ).run
        assert run.memory.waste_of_held == each.waste_of_held
        assert run.batch.mean == each.batch_mean
        assert run.makespan_s == each.makespan_s
        assert run.latency.ttft_s.mean == each.ttft_s


def test_it_is_the_same_every_time(made: Lesson) -> None:
    again = (tiny.attention(), memory.models(), memory.cards(), memory.kinds())
    ours = (made.attention, made.models, made.cards, made.kinds)
    assert msgspec.json.encode(again) == msgspec.json.encode(ours)


def test_it_says_how_far_it_is(made: Lesson) -> None:
    assert [each[0] for each in STEPS] == list(range(1, 46))
    assert {each[1] for each in STEPS} == {45}
