"""Step times: §3's worked examples, and `ramp` equal to `ns` bit for bit."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedsim.device import Affine, Constant, Device, Gpu, Roofline, Table, make_device, read_table
from pagedsim.device.steptime import half_even, line
from pagedsim.device.work import pairs
from pagedsim.errors import InputError, SpecError
from pagedsim.protocols import Load, StepTime, SupportsFew, SupportsMany, SupportsRamp

LLAMA = make_device("llama-3.1-8b", "a100-80gb")
DEVICES = [
    LLAMA,
    make_device("llama-2-7b", "h100", kv_dtype="int4"),
    make_device("qwen3-30b-a3b", "h200", weights_dtype="fp8"),
    make_device("deepseek-v2-lite", "h100", tp=2),
    make_device("llama-3.1-8b", "l40s", tp=16, kv_dtype="q8_0"),
    make_device("llama-3.1-70b", "h100", tp=4, pp=2, kv_dtype="fp8"),
    make_device("gpt-oss-20b", "h100"),
]
GRID = [
    (s, p, c, 1.5 + s / 3 + p / 7 + c / 1e5)
    for s in (1, 8, 64)
    for p in (0, 512)
    for c in (0, 9999)
]
MODELS: list[StepTime] = [
    *(Roofline(device) for device in DEVICES),
    Roofline(LLAMA, mfu=0.37, mbu=0.91, overhead_ms=0),
    Affine(base_ms=26.24, per_seq_ms=0.419),
    Affine(per_context_token_ns=0.3, per_prefill_token_us=41.7, base_ms=1e-6),
    Affine(per_context_token_ns=0.000001),
    Table(GRID),
    Table([(1, 0, 0, 3.0), (10, 0, 0, 2.0)]),
    Constant(ms=20.0000005),
]
NAMES = [f"{type(m).__name__}{i}" for i, m in enumerate(MODELS)]
small = st.integers(0, 10**6)
large = st.integers(0, 10**13)


def at(load: Load, j: int) -> Load:
    more = j * load.sequences
    return load._replace(pairs=load.pairs + more, context=load.context + more)


def decode(contexts: list[int]) -> Load:
    n = len(contexts)
    return Load(n, 0, n, sum(contexts), sum(contexts))


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
@given(
    sequences=st.integers(0, 2048),
    prefilled=st.integers(0, 5000),
    pairs=st.one_of(small, large),
    context=st.one_of(small, large),
    steps=st.integers(0, 40),
)
@settings(max_examples=60, deadline=None)
def test_ramp_equals_ns(
    model: StepTime, sequences: int, prefilled: int, pairs: int, context: int, steps: int
) -> None:
    load = Load(sequences, 0, sequences + prefilled, pairs, context)
    assert isinstance(model, SupportsRamp)
    times = model.ramp(load, steps)
    assert times.dtype == np.int64
    assert times.tolist() == [model.ns(at(load, j)) for j in range(steps)]
    assert (times >= 1).all()


@pytest.mark.parametrize("model", MODELS[:11], ids=NAMES[:11])
def test_ramp_equals_ns_where_int64_overflows(model: StepTime) -> None:
    """FLOPs and femtoseconds pass 2⁶³ inside this ramp; the times themselves do not."""
    assert isinstance(model, SupportsRamp)
    for scale in (10**11, 10**12, 10**13, 10**14, 10**15):
        load = Load(scale // 100, 0, scale // 100, scale, scale)
        assert model.ramp(load, 19).tolist() == [model.ns(at(load, j)) for j in range(19)]
        assert model.ramp(load, 1).tolist() == [model.ns(load)]


@pytest.mark.parametrize("model", MODELS[:11], ids=NAMES[:11])
def test_a_step_beyond_the_clock_is_refused(model: StepTime) -> None:
    assert isinstance(model, SupportsRamp)
    load = Load(10**30, 0, 10**30, 10**30, 10**30)
    with pytest.raises(SpecError, match="must be <= 9223372036854775807"):
        model.ns(load)
    with pytest.raises(SpecError, match="must be <= 9223372036854775807"):
        model.ramp(load, 3)
    with pytest.raises(SpecError, match="must be <= 9223372036854775807"):
        model.ramp(load, 30)


@given(st.integers(0, 1 << 70), st.integers(1, 1 << 40))
def test_half_even_is_pythons_round_of_a_fraction(value: int, divisor: int) -> None:
    assert half_even(value, divisor) == round(Fraction(value, divisor))


@given(st.integers(0, 1 << 66), st.integers(0, 1 << 50), st.integers(64, 1000), st.integers(0, 9))
def test_line(start: int, slope: int, divisor: int, steps: int) -> None:
    expected = [max(1, round(Fraction(start + j * slope, divisor))) for j in range(steps)]
    assert line(start, slope, divisor, steps).tolist() == expected


def bare(weights: int, bandwidth: int, **changes: int) -> Device:
    gpu = Gpu("bare", 80, bandwidth, 10**15)
    return replace(LLAMA, gpu=gpu, weights_bytes=weights, **changes)


@pytest.mark.parametrize(("bandwidth", "ms"), [(2, 7), (1, 14)])
def test_reading_14_gb_of_weights_takes(bandwidth: int, ms: int) -> None:
    """14 GB at 2 TB/s is 7 ms (143 tokens/s for one sequence), at 1 TB/s 14 ms (71)."""
    device = bare(14 * 10**9, bandwidth * 10**12)
    ns = Roofline(device, mfu=1, mbu=1, overhead_ms=0).ns(decode([1]))
    kv = 2 * device.kv_bytes_per_token / bandwidth / 1000
    assert ns == pytest.approx(ms * 10**6 + kv, abs=1)
    assert round(1e9 / ns) == {7: 143, 14: 71}[ms]


def test_decode_attention_is_one_flop_a_byte_times_the_group() -> None:
    """4·n·d FLOPs over 2·n·d fp16 numbers, whatever n is; times query heads per KV head."""
    for name, group in (("llama-2-7b", 1), ("llama-3.1-8b", 4), ("falcon-7b", 71)):
        device = make_device(name, "h100")
        model = Roofline(device)
        for n in (1, 1000, 10**6):
            flops = model.flops(Load(0, 0, 0, n, n))
            assert Fraction(flops, device.kv_bytes_per_token * n) == group


def test_prefill_is_compute_bound_and_decode_is_bandwidth_bound() -> None:
    model = Roofline(LLAMA)
    prefill, one = Load(1, 1, 2048, pairs(0, 2048), 2048), decode([2048])
    assert (model.bound(prefill), model.bound(one)) == ("compute", "bandwidth")
    assert model.intensity(one) < model.ridge < model.intensity(prefill)
    loads = [prefill, one, Load(0, 0, 0, 0, 0), decode([100] * 200)]
    columns = [np.array([getattr(x, c) for x in loads]) for c in ("tokens", "pairs", "context")]
    bounds, shares = model.bounds(*columns), model.intensities(*columns)
    for load, compute, share in zip(loads, bounds, shares, strict=True):
        assert ("compute" if compute else "bandwidth") == model.bound(load)
        assert share == pytest.approx(model.intensity(load))


def test_roofline_by_hand() -> None:
    """One decode at context 1,000 on an A100: weights and KV over 0.8 · 2,039 GB/s, plus 2 ms."""
    size = 16_059_990_016 + 131_072 * 1001
    load = decode([1000])
    assert Roofline(LLAMA).bytes(load) == size
    assert Roofline(LLAMA).ns(load) == 2_000_000 + round(size / (2039 * 0.8))
    flops = 2 * 8_029_995_008 + 4 * 32 * 128 * 32 * 1000
    assert Roofline(LLAMA).flops(load) == flops
    assert Roofline(LLAMA).ns(Load(0, 0, 0, 0, 0)) == 2_000_000


def test_tensor_parallelism_divides_work_and_pipelines_do_not() -> None:
    one = make_device("llama-3.1-70b", "h100", kv_tokens=10**6)
    four = make_device("llama-3.1-70b", "h100", tp=4, kv_tokens=10**6)
    piped = make_device("llama-3.1-70b", "h100", tp=4, pp=2, kv_tokens=10**6)
    for load in (decode([500] * 9), Load(1, 1, 4096, pairs(0, 4096), 4096)):
        t1, t4, tp = (Roofline(d, overhead_ms=0).ns(load) for d in (one, four, piped))
        assert t4 == pytest.approx(t1 / 4, abs=2)
        assert tp == t4


def test_experts_are_read_only_where_tokens_use_them() -> None:
    device = make_device("qwen3-30b-a3b", "h100", max_batched_tokens=2048)
    model = Roofline(device)
    one, all_of_them = model.bytes(decode([1])), model.bytes(decode([1] * 16))
    assert one == device.weights_bytes - 120 * device.expert_bytes + 2 * device.kv_bytes_per_token
    assert all_of_them == device.weights_bytes + 32 * device.kv_bytes_per_token


def test_affine_is_the_papers_fit_exactly() -> None:
    model = Affine(base_ms=26.24, per_seq_ms=0.419)
    assert model.ns(decode([5] * 7)) == 29_173_000
    mixed = Affine(base_ms=1, per_seq_ms=2, per_prefill_token_us=3, per_context_token_ns=4)
    # 3 sequences, one of them given 100 tokens of its prompt: 100 prefill tokens
    load = Load(3, 1, 102, 999, 500)
    assert mixed.ns(load) == 1_000_000 + 6_000_000 + 300_000 + 2_000


def test_constant_and_table() -> None:
    assert Constant(ms=20).ns(decode([1])) == 20_000_000
    table = Table([(1, 0, 0, 10.0), (3, 0, 0, 20.0)])
    ms = [table.ns(decode([1] * n)) / 1e6 for n in (1, 2, 3, 5)]
    assert ms == [10, 15, 20, 30]  # the last goes on along the last segment
    falling = Table([(1, 0, 0, 10.0), (3, 0, 0, 8.0)])
    assert [falling.ns(decode([1] * n)) / 1e6 for n in (1, 2, 3, 500)] == [10, 9, 8, 8]


def test_read_table(tmp_path: object) -> None:
    import pathlib

    path = pathlib.Path(str(tmp_path)) / "steps.csv"
    path.write_text("batch, context, ms\n1,0,10\n1,100,20\n\n2,0,12\n2,100,22\n")
    assert read_table(path).ns(Load(1, 0, 1, 50, 50)) == 15_000_000
    for text, message in (
        ("", "has no rows"),
        ("batch,ms\n", "has no rows"),
        ("size,ms\n1,2\n", "steps.csv:1: column 'sequences' is missing; there are: size, ms"),
        ("batch,ms\n1,2\n2,x\n", "steps.csv:3: ms is 'x', must be a number > 0"),
        ("batch,ms\n1,nan\n", "steps.csv:2: ms is nan, must be > 0"),
        ("batch,ms\n1,1e300\n", "steps.csv:2: ms is 1e300, must be <= 1099511627776"),
        (
            "batch,ms\n99999999999999,3\n",
            "steps.csv:2: sequences is 99999999999999, must be <=",
        ),
        ("batch,ms\n-1,3\n", "steps.csv:2: sequences is -1, must be >= 0"),
        ("batch,ms\n1.5,3\n", "steps.csv:2: sequences is '1.5', must be an integer >= 0"),
        ("batch,ms\n1,3\n1,4\n", "is there twice"),
        ("batch,ms\n1,3,4\n", "steps.csv:2: 3 fields, must be 2"),
        ("batch,context,ms\n1,0,3\n2,9,4\n", "no row for sequences 1, prefill_tokens 0, context 9"),
        ('batch,ms\n"1,3\n', "is no CSV"),
    ):
        path.write_text(text)
        with pytest.raises(InputError) as caught:
            read_table(path)
        assert message in str(caught.value)
    path.write_bytes(b"batch,ms\n\xff,3\n")
    with pytest.raises(InputError, match="is no UTF-8"):
        read_table(path)
    for missing in (path.parent, path.parent / "none.csv"):
        with pytest.raises(InputError, match="cannot be read"):
            read_table(missing)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Roofline(LLAMA, mfu=0), "mfu is 0, must be in"),
        (lambda: Roofline(LLAMA, mbu=1.5), "mbu is 1.5, must be in"),
        (lambda: Roofline(LLAMA, mfu="x"), "mfu is 'x'"),  # type: ignore[arg-type]
        (lambda: Roofline(LLAMA, overhead_ms=-1), "overhead_ms is -1, must be a finite"),
        (lambda: Affine(), "affine needs a coefficient > 0"),
        (lambda: Affine(base_ms=float("nan")), "base_ms is nan"),
        (lambda: Affine(per_seq_ms=float("inf")), "per_seq_ms is inf"),
        (lambda: Affine(per_prefill_token_us=True), "must be a number"),
        (lambda: Constant(ms=0), "ms is 0, must be > 0"),
        (lambda: Constant(ms=-3), "ms is -3"),
        (lambda: Constant(ms=1e30), "must be <= 9223372036854775807"),
        (lambda: Table([]), "has no rows"),
        (lambda: Table([(1, 0, 0, 0.0)]), "ms is 0.0, must be > 0"),
        (lambda: Table([(-1, 0, 0, 1.0)]), "must be integers >= 0"),
    ],
)
def test_mistakes_name_value_and_bound(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(SpecError) as caught:
        make()
    assert message in str(caught.value)


@given(small, small, small, st.integers(1, 40), st.sampled_from(MODELS))
def test_few_equals_ramp(
    sequences: int, pairs_: int, context: int, steps: int, model: StepTime
) -> None:
    if isinstance(model, SupportsFew):
        load = Load(sequences, 0, sequences, pairs_, context)
        assert model.few(load, steps) == model.ramp(load, steps).tolist()


@pytest.mark.parametrize("model", MODELS[:11], ids=NAMES[:11])
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 2048),
            st.integers(0, 2048),
            st.integers(0, 10**5),
            st.one_of(small, large),
            st.one_of(small, large),
        ),
        max_size=6,
    )
)
@settings(max_examples=60, deadline=None)
def test_many_equals_ns(model: StepTime, rows: list[tuple[int, int, int, int, int]]) -> None:
    assert isinstance(model, SupportsMany)
    loads = [Load(n, min(n, p), n + more, pairs, context) for n, p, more, pairs, context in rows]
    times = model.many(np.array(loads, np.int64).reshape(-1, 5))
    assert times.dtype == np.int64
    assert times.tolist() == [model.ns(load) for load in loads]


@pytest.mark.parametrize("model", MODELS[:11], ids=NAMES[:11])
def test_many_equals_ns_where_int64_overflows(model: StepTime) -> None:
    assert isinstance(model, SupportsMany)
    for scale in (10**11, 10**12, 10**13, 10**14, 10**15):
        loads = [Load(scale // 100, 0, scale // 100, scale, scale + at) for at in range(5)]
        assert model.many(np.array(loads)).tolist() == [model.ns(load) for load in loads]


_EDGE = 4 << 51  # from there on a double holds no quarters


@given(
    st.one_of(st.integers(0, 1 << 62), st.integers(0, 64), st.integers(-9, 9).map(_EDGE.__add__))
)
def test_a_roofline_rounds_half_to_even(quarters: int) -> None:
    """Quarters of a ns; as `many` has it, and as Python rounds."""
    model = Roofline(make_device("llama-3.1-8b", "h100"), overhead_ms=0)
    model._peak_rate = model._byte_rate = 4.0
    wanted = max(1, round(quarters / 4))
    assert model._few(quarters, 0, 0, 0, 1) == model._few(0, 0, quarters, 0, 1) == [wanted]
    assert model._times(np.array([quarters]), np.array([0])).tolist() == [wanted]
