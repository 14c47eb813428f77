"""What `compare`, `replay` and `verify` print: at a glance, at any width."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import pagedsim
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pagedsim.present.labels import labels

pytestmark = pytest.mark.usefixtures("folder")


def _lines(*args: object, width: int = 80) -> list[str]:
    said = pagedsim(*args, width=width)
    assert said.code == 0, said.err
    lines = [line.rstrip() for line in said.out.splitlines()]
    assert max(map(cell_len, lines)) <= width
    return lines


def test_compare_is_headed_by_what_was_not_served() -> None:
    lines = _lines("compare", "t.csv", "--max-len", 450, "--kv-tokens", 2000)
    assert lines[:5] == [
        "t · 8 requests · 3,913 in + 550 out tokens",
        "Load: recorded arrivals",
        "Pool: Llama-3.1-8B on A100-80GB-SXM · 128 KiB a token · 2,000 tokens of KV",
        "Refused 2 requests (53.5 % of tokens), truncated 3 requests (2.1 % of tokens)",
        "Prompts of up to 1,313 tokens, must be <= 449 (--max-len): 2 requests",
    ]
    assert _lines("replay", "t.csv", "--max-len", 450, "--kv-tokens", 2000)[3:5] == lines[3:5]
    assert _lines("replay", "t.csv")[3] == "Nothing refused or truncated"


def test_runs_that_serve_differently_each_say_so() -> None:
    both = ("--allocator", "paged:block=16", "--allocator", "slots:n=10")
    lines = _lines("compare", "t.csv", "--max-len", 2000, "--kv-tokens", 4000, *both)
    assert lines[3:6] == [
        "paged:block=16: nothing refused or truncated",
        "slots:n=10: refused 6 requests (95.2 % of tokens)",
        "slots:n=10: up to 1,454 tokens to store, must be <= 400: 6 requests",
    ]


def test_rows_that_were_left_out_or_moved_are_said(folder: Path) -> None:
    rows = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
        f"2023-11-16 18:17:0{second}.0,10,{output}\n" for second, output in ((5, 5), (4, 5), (3, 0))
    )
    (folder / "u.csv").write_text(rows)
    for command in ("compare", "replay"):
        text = "\n".join(_lines(command, "u.csv"))
        assert "1 of 3 requests have zero output and were left out" in text
        assert "sorted by arrival" in text


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_numbers_are_whole_at_any_width(width: int) -> None:
    lines = _lines("compare", "t.csv", width=width)
    (head,) = (at for at, line in enumerate(lines) if line.endswith("req/s"))
    table = lines[head - 1 : head + 5]
    assert "…" not in "".join(line[12:] for line in table)
    assert all(len(line.split()) == len(table[2].split()) for line in table[3:])


def test_names_are_short_and_told_apart() -> None:
    lines = _lines("compare", "t.csv")
    names = [line.split()[0] for line in lines if line.startswith(("contiguous:", "paged:"))]
    assert names == [
        "contiguous:place=buddy,reserve=max",
        "contiguous:place=buddy,reserve=pow2",
        "contiguous:place=buddy,reserve=exact",
        "paged:block=16",
        *("contiguous:buddy,max", "contiguous:buddy,pow2", "contiguous:buddy,exact", "paged:16"),
    ]


def test_forms_of_a_name() -> None:
    names = ["contiguous:place=buddy,reserve=max", "paged:block=16,null=0", "a.b:Own?size=3", "x"]
    assert labels(names, 99) == names
    assert labels(names, 30) == ["contiguous:buddy,max", "paged:16,null=0", "Own:3", "x"]
    assert labels(names, 15) == ["buddy,max", "paged:16,null=0", "Own:3", "x"]
    switched = ["paged:prefix=on", "paged:block=16,prefix=off", "a.b:Own?exact=True&size=3"]
    assert labels(switched, 21) == [
        "paged:prefix=on",
        "paged:16,prefix=off",
        "Own:exact=True,size=3",
    ]
    alike = ["paged:block=16", "paged:free=16"]
    assert labels(alike, 12) == ["paged:b…k=16", "paged:f…e=16"]


@given(st.lists(st.text(max_size=40), min_size=1, max_size=5), st.integers(8, 50))
def test_labels_fit_and_are_as_many(names: list[str], width: int) -> None:
    made = labels(names, width)
    assert len(made) == len(names)
    assert all(cell_len(name) <= width for name in made)


def test_nothing_that_ran_is_no_wall_of_dashes() -> None:
    lines = _lines("replay", "t.csv", "--max-len", 2)
    assert "Refused 8 requests (100.0 % of tokens)" in lines
    assert "No request ran." in lines
    assert (
        sum(line.endswith("no step ran") for line in _lines("compare", "t.csv", "--max-len", 2))
        == 4
    )


def test_edges_run() -> None:
    for words in (
        *(("--limit", 1), ("--max-batched-tokens", 1), ("--kv-blocks", 2), ("--rate", 1e300)),
        *(("--max-seqs", 1), ("--max-len", 3), ("--window", "0:0.001"), ("--kv-tokens", 1500)),
        ("--steptime", "constant:ms=1e6"),
    ):
        assert pagedsim("replay", "t.csv", *words).code == 0


def test_layers_that_are_counted_as_full_attention_are_said() -> None:
    text = " ".join(_lines("replay", "t.csv", "--model", "gemma-2-9b"))
    assert "21 of 42 layers use a sliding window of 4,096 tokens" in text


def test_seeds_are_shown_with_whole_names() -> None:
    lines = _lines("compare", "t.csv", "--rate", 3, "--seeds", 3, "--kv-tokens", 20_000)
    at = lines.index("Mean ± 95 % interval over 3 seeds (above: the first)")
    table = lines[at + 1 : at + 6]
    assert "…" not in "".join(table)
    assert all(line.count("±") >= 4 for line in table[1:])


def test_help_fits() -> None:
    for command in ((), ("compare",), ("replay",), ("verify",)):
        text = "\n".join(_lines(*command, "--help"))
        assert "<str>" not in text.replace("TRACE <str>", "")
