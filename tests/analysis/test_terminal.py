"""What is printed: within 80 columns, plain in a pipe, and true to names of any kind."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import recording, requests, three_steps
from rich.cells import cell_len
from rich.console import Console, RenderableType

from pagedsim.analysis import results
from pagedsim.analysis.report import report, result
from pagedsim.analysis.results import TERMS
from pagedsim.analysis.seeds import over_seeds
from pagedsim.present import numbers
from pagedsim.present.bars import cells
from pagedsim.present.detail import single
from pagedsim.present.numbers import bytes_, count, per_cent, plain, significant
from pagedsim.present.progress import Progress
from pagedsim.present.tables import comparison, console
from pagedsim.trace.trace import Trace

NASTY = (
    "[red]x[/red]",
    "\x1b[31mred\x1b[0m",
    "[/]",
    "a\nb\r\tc",
    "漢字" * 30,
    "x" * 300,
    "",
    "🙂" * 9,
)


def _result(*names: str, **changes: Any) -> results.Result:
    run, trace = three_steps()
    one = msgspec.structs.replace(report(run, trace, name="").run, **changes)
    device = results.DeviceInfo(
        model="Llama-3.1-8B", gpu="A100-80GB", kv_bytes_per_token=131072, capacity_tokens=436_906
    )
    runs = tuple(msgspec.structs.replace(one, name=name) for name in names)
    return msgspec.structs.replace(result(runs, device, trace))


def _text(renderable: RenderableType, width: int = 80) -> str:
    out = io.StringIO()
    made = console(file=out)
    made.width = width
    made.print(renderable)
    return out.getvalue()


def _fits(text: str, width: int = 80) -> None:
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert not [char for char in text if not char.isprintable() and char != "\n"]


def test_a_comparison_reads_at_a_glance() -> None:
    text = _text(comparison(_result("contiguous max", "paged")))
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[:3] == [
        "three · 3 requests · 71 in + 12 out tokens",
        "Load: recorded arrivals",
        "Pool: Llama-3.1-8B on A100-80GB · 128 KiB a token · 437k tokens of KV",
    ]
    assert "Refused 1 request (73.5 % of tokens), truncated 1 request (7.2 % of tokens)" in text
    bar = next(line for line in lines if line.startswith("paged"))
    assert bar.count("█") == round(0.145 * 65)
    assert "█ live   ▒ reserved   ░ internal   x external   = cached   · idle" in lines
    numbers = [line for line in lines if line.startswith("paged")][1].split()
    assert numbers[1:5] == ["14.5", "45.5", "1.50", "2"]
    assert "hit" in text
    _fits(text)


def test_no_hits_no_column() -> None:
    none = results.Prefix(prompt_tokens=11, hit_tokens=0, hit_rate=0.0)
    assert "hit" not in _text(comparison(_result("a", prefix=none)))


@pytest.mark.parametrize("width", [80, 100, 200])
def test_names_of_any_kind_stay_names(width: int) -> None:
    made = _result(*NASTY)
    trace = msgspec.structs.replace(
        made.trace, name="[bold]\x1b]0;t\x07" + "n" * 200, load="[x]" * 99
    )
    text = _text(comparison(msgspec.structs.replace(made, trace=trace)), width)
    _fits(text, width)
    assert "[red]x[/red]" in text
    assert "[bold]" in text
    for index in range(len(NASTY)):
        _fits(_text(single(made, index), width), width)


def test_large_numbers_fit_with_many_runs() -> None:
    large = results.Stats(12345.6, 12345.6, 12345.6, 12345.6)
    latency = results.Latency(
        queue_s=large, ttft_s=large, tpot_s=large, e2e_s=large, normalized_s_per_token=large
    )
    made = _result(
        *(f"contiguous:place=buddy,reserve=max,n={n}" for n in range(6)),
        batch=results.Batch(mean=1023.4, peak=1024),
        preemptions=1_234_567,
        latency=latency,
    )
    text = _text(comparison(made))
    _fits(text)
    assert "1.23M" in text
    assert "12,346" in text


def test_runs_that_serve_differently_say_so() -> None:
    made = _result("a", "b")
    other = msgspec.structs.replace(made.runs[1], refused=0, truncated=0, dropped=0)
    text = _text(comparison(msgspec.structs.replace(made, runs=(made.runs[0], other))))
    assert "a: refused 1 request" in text
    assert "b: nothing refused or truncated" in text


def test_one_run_in_full() -> None:
    seeded = over_seeds([_result("paged").runs[0]] * 3, [1, 2, 3])
    compute = results.Compute(compute_bound=0.25, bandwidth_bound=0.75, intensity=12.5, ridge=153.0)
    seeded = msgspec.structs.replace(seeded, compute=compute)
    text = _text(single(msgspec.structs.replace(_result("paged"), runs=(seeded,))))
    _fits(text)
    for words in (
        "limited by      memory 50.0 %, max_seqs 0.0 %, budget 25.0 %, arrivals 25.0 %",
        "2 of 1 request, 4 tokens computed again",
        "compute 25.0 %, bandwidth 75.0 % of the time; 12.5 FLOPs a byte",
        "over 3 seeds (above: the first)",
        "14.5 ± 0",
    ):
        assert words in text
    (ttft,) = (line for line in text.splitlines() if line.startswith("time to first token"))
    assert ttft.split()[4:] == ["1.75", "1.00", "2.50", "2.50"]


def test_a_run_of_nothing_is_dashes() -> None:
    trace = Trace.build("none", [0], [99], [1])
    run = report(recording([], requests(arrival_ns=[0], status=[2])), trace, name="none").run
    made = msgspec.structs.replace(_result("x"), runs=(run,))
    assert "–" in _text(comparison(made))
    _fits(_text(single(made)))


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    made = comparison(_result("paged"))
    colour = "\x1b[38;5;29m"  # live, as near as 256 colours come
    for no_color, variable, expected in ((False, "", True), (True, "", False), (False, "1", False)):
        if variable:
            monkeypatch.setenv("NO_COLOR", variable)
        out = Terminal()
        console(file=out, no_color=no_color).print(made)
        assert (colour in out.getvalue()) is expected
    assert "\x1b" not in _text(made)


def test_letters_where_the_terminal_is_not_unicode() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    Console(file=out, width=80).print(comparison(_result("paged")))
    out.flush()
    text = out.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert "# live   r reserved   o internal   x external   c cached   . idle" in text


@given(st.lists(st.integers(0, 1 << 40), min_size=6, max_size=6), st.integers(1, 200))
def test_a_bars_cells_fill_it(parts: list[int], width: int) -> None:
    whole = sum(parts)
    if not whole:
        return
    shares = {term: part / whole for term, part in zip(TERMS, parts, strict=True)}
    memory = results.Memory(**shares, waste=0, shared=0, waste_of_held=0)
    counts = dict(cells(memory, width))
    assert sum(counts.values()) == width
    assert all(abs(counts[term] - shares[term] * width) < 1 + 1e-9 for term in TERMS)


def test_numbers_for_people() -> None:
    assert [per_cent(x) for x in (None, 0, 0.0004, 0.1234, 0.9999, 1)] == [
        *("–", "0.0", "<0.1", "12.3", ">99.9", "100.0"),
    ]
    assert [
        significant(x) for x in (None, 0, 1e-9, 0.0123, 0.123, 1.234, 12.34, 99.97, 1234.5)
    ] == [
        *("–", "0", "<0.0001", "0.0123", "0.123", "1.23", "12.3", "100", "1,234"),
    ]
    assert [count(x) for x in (0, 99_999, 123_456, 999_400, 999_600, 4_560_000, 7_890_000_000)] == [
        *("0", "99,999", "123k", "999k", "1.00M", "4.56M", "7.89G"),
    ]
    assert [bytes_(x) for x in (1.5, 131072, 819200, 3 << 30, 16 << 40)] == [
        *("1.5 B", "128 KiB", "800 KiB", "3 GiB", "16 TiB"),
    ]
    assert [numbers.requests(x) for x in (0, 1, 2000)] == [
        "0 requests",
        "1 request",
        "2,000 requests",
    ]


@given(st.text(max_size=60), st.integers(3, 30))
def test_a_name_is_cut_to_its_width(name: str, width: int) -> None:
    cut = plain(name, width)
    assert cell_len(cut) <= width
    assert cut.isprintable()
    if name.isprintable() and cell_len(name) <= width:
        assert cut == name


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _progress(stream: io.StringIO, step_s: float, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TERM", "xterm")
    now = iter(range(10**6))
    with Progress(100, "[red]", stream=stream, clock=lambda: next(now) * step_s) as progress:
        for _ in range(100):
            progress(1)
    return stream.getvalue()


def test_progress_is_for_terminals_and_for_long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _progress(io.StringIO(), 1, monkeypatch) == ""
    assert _progress(Terminal(), 0.001, monkeypatch) == ""
    shown = _progress(Terminal(), 0.05, monkeypatch)
    assert "[red]" in shown
    assert "/100" in shown
    assert shown.rstrip("\r\n").endswith("\x1b[2K")  # and is taken away


def test_progress_of_a_download_is_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out, now = Terminal(), iter(range(100))
    with Progress(0, "fetching", bytes_=True, stream=out, clock=lambda: next(now)) as progress:
        progress.reach(1000, 0)
        progress.reach(2000, 4000)
    assert "2.0/4.0 kB" in out.getvalue()


def test_progress_goes_when_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out, now = Terminal(), iter(range(100))
    progress = Progress(9, stream=out, clock=lambda: next(now))

    def work() -> None:
        with progress:
            progress(1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert "\x1b[?25h" in out.getvalue()  # the cursor is back
