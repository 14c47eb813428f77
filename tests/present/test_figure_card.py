"""A card is drawn as full as the arithmetic says, and lines of what fits end where nothing does."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pagedsim import make_device, simulate
from pagedsim.device import Device, find_model
from pagedsim.errors import SpecError
from pagedsim.present import figures
from pagedsim.trace import Trace

GIB = 2**30


def device(gpu: str = "a100-80gb", kv_dtype: str = "auto", kv_heads: int = 32) -> Device:
    return make_device(replace(find_model("llama-2-7b"), kv_heads=kv_heads), gpu, kv_dtype=kv_dtype)


@pytest.mark.parametrize(("length", "batch"), [(4096, 29), (4096, 30), (4097, 29), (17, 1)])
def test_bars_are_the_bytes(length: int, batch: int) -> None:
    of = device()
    (axes,) = figures.card(of, length=length, batch=batch).axes
    ends = [bar.get_x() + bar.get_width() for (bar,) in axes.containers]
    pool = of.estimate
    assert pool is not None
    blocks = 1 + batch * ((length + 15) // 16)  # the null block's, and theirs
    kv = blocks * 16 * 2 * 32 * 32 * 128 * 2  # K and V, layers, heads, head size, two bytes
    want = [pool.weights_bytes, pool.weights_bytes + pool.activation_bytes]
    want.append(want[-1] + kv)
    over = want[-1] > pool.weights_bytes + pool.activation_bytes + of.blocks * 16 * 2**19
    assert len(ends) == 3 + over
    assert ends == pytest.approx([each / GIB for each in (*want, *want[-1:] * over)])
    assert axes.get_xlim()[1] > max(ends)


@pytest.mark.parametrize("kv_dtype", ["fp16", "fp8"])
@pytest.mark.parametrize("length", [3000, 4096])
def test_the_title_says_how_many_a_server_runs(kv_dtype: str, length: int) -> None:
    """The engine, told to run them all at once, preempts nobody up to that number and then does."""
    of = device("a100-40gb", kv_dtype)
    title = figures.card(of, length=length, batch=99).get_suptitle()
    assert title.startswith(f"99 requests of {length:,} tokens do not fit: ")
    fit = int(re.findall(r"(\d+) would", title)[0])
    assert f"{fit} requests of {length:,} tokens fit: {fit} would" == (
        figures.card(of, length=length, batch=fit).get_suptitle()
    )
    for batch in (fit, fit + 1):
        half = length // 2
        equal = Trace.build("equal", [0] * batch, [half] * batch, [length - half + 1] * batch)
        wide = f"vllm:max_batched_tokens={batch * half}"
        run = simulate(equal, "paged", device=of, scheduler=wide, max_len=length + 1).run
        assert run.batch.peak == batch
        assert (run.preemptions > 0) == (batch > fit)


def test_lines_end_where_nothing_fits() -> None:
    lengths = [1024, 65536, 131072]
    devices = {"big $x$": device(kv_heads=8), "small": device("l4")}
    (axes,) = figures.fits(devices, lengths).axes
    big, small = axes.lines
    assert big.get_xdata().tolist() == lengths
    assert small.get_xdata().tolist() == lengths[:1]
    for line, of in zip((big, small), devices.values(), strict=True):
        for length, many in zip(line.get_xdata(), line.get_ydata(), strict=True):
            assert many * length // 16 <= of.blocks - 1 < (many + 1) * length // 16
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [r"big \$x\$", "small"]
    assert figures.fits({"none": device("t4")}, [10**6]).axes[0].lines[0].get_xdata().size == 0


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(SpecError, match="stated"):
        figures.card(make_device("llama-2-7b", "l4", kv_tokens=160), length=1, batch=1)
    for length, batch in ((0, 1), (1, 0), (-4, 1)):
        with pytest.raises(SpecError, match=f"length is {length}, batch is {batch}: both must be"):
            figures.card(device(), length=length, batch=batch)
