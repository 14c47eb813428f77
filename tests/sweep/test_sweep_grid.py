"""What a sweep's file comes to: its runs in order, and what is said where it is wrong."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.analysis.results import to_json
from pagedsim.analysis.sweep_grid import read_grid
from pagedsim.cli.sweep_cases import answer, cases, command
from pagedsim.errors import InputError

TRACE = str(Path(__file__).with_name("four.csv"))


def written(folder: Path, text: str) -> str:
    file = folder / "g.toml"
    file.write_text(text)
    return str(file)


@given(
    first=st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
    second=st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True),
    names=st.lists(st.sampled_from(["x", "y", "z"]), max_size=3, unique=True),
)
def test_every_combination_once_in_order(
    tmp_path_factory: pytest.TempPathFactory, first: list[int], second: list[str], names: list[str]
) -> None:
    text = f"limit = 5\n[grid]\nrate = {first}\nmodel = {second}\n"
    text += "".join(f'[[run]]\nname = "{name}"\nlimit = {n}\n' for n, name in enumerate(names))
    found = read_grid(written(tmp_path_factory.mktemp("g"), text))
    assert [(entry.options["limit"], entry.options["rate"], entry.options["model"])
            for entry in found] == [
        *product(range(len(names)) if names else [5], first, second)
    ]  # fmt: skip
    assert len({entry.name for entry in found}) == len(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "nothing to run: there is no option in [grid] and no [[run]]"),
        ("trace = 'chat'\n[grid]\n", "nothing to run"),
        ("[grid]\nrate = []\n", "grid.rate is an empty list: there is nothing to run"),
        ("[grid]\nrate = 4\n", "grid.rate is 4, must be a list: [4]"),
        ("rate = [4]\n", "rate is a list: what varies goes under [grid]"),
        ("[[run]]\nrate = [4]\n", "run 1: rate is a list"),
        ("[run]\nrate = 4\n", "run must be a list of tables: [[run]]"),
        ("grid = 4\n", "grid is 4, must be a table"),
        ("[grid]\nrate = [2024-01-01]\n", "grid.rate is a date, must be text, a number"),
        ("[grid]\nrate = [{a = 1}]\n", "grid.rate is a table"),
        ("[[run]]\nname = 'a'\n[[run]]\nname = 'a'\n", "run 1 and run 2 are both named 'a'"),
        ("[[run]]\nname = ''\n", "run 1: name is '', must be a line of text"),
        ("[[run]]\nname = 3\n", "run 1: name is 3, must be a line of text"),
        ("[[run]]\nrate = 1\n[grid]\nrate = [2]\n", "run 1: rate is in [grid] as well"),
        ("[grid]\nrate = [1, \n", "is no TOML: "),
        (
            "[grid]\n" + "".join(f"o{n} = [0,1,2,3,4,5,6,7,8,9]\n" for n in range(6)),
            "1,000,000 runs",
        ),
    ],
)
def test_a_file_that_is_wrong_says_where(tmp_path: Path, text: str, said: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_grid(file)
    assert str(caught.value).startswith(f"{file}: {said}")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.toml: cannot be read: No such file"):
        read_grid(tmp_path / "nowhere.toml")
    file = tmp_path / "g.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"g\.toml: is no UTF-8 text"):
        read_grid(file)


def of(folder: Path, text: str) -> list[str]:
    file = written(folder, text)
    return [command(case) for case in cases("g.toml", read_grid(file))]


def test_a_case_is_what_options_come_to(tmp_path: Path) -> None:
    text = f"trace = '{TRACE}'\nclosed-loop = false\n[grid]\nnum-gpu-blocks-override = ['8k', 20]\n"
    found = cases("g.toml", read_grid(written(tmp_path, text)))
    assert [case.config for case in found] == [
        {"kv_blocks": 8000, "trace": TRACE},
        {"kv_blocks": 20, "trace": TRACE},
    ]
    (name,) = found[0].inputs
    assert name == f"trace={TRACE}"
    assert len(found[0].inputs[name]) == 64


def test_saying_a_default_makes_no_other_configuration(tmp_path: Path) -> None:
    text = f"trace = '{TRACE}'\n[[run]]\nlimit = 3\n"
    (plain,) = cases("g", read_grid(written(tmp_path, text)))
    text += "engine = 'fast'\nseeds = 1\nclosed-loop = false\nzero_output = 'drop'\n"
    assert [case.key for case in cases("g", read_grid(written(tmp_path, text)))] == [plain.key]


def test_the_key_knows_the_bytes_of_every_file(tmp_path: Path) -> None:
    trace, table = tmp_path / "t.csv", tmp_path / "s.csv"
    text = f"trace = '{trace}'\nsteptime = 'table:{table}'\n[[run]]\nlimit = 2\n"
    seen = set()
    for rows in ("0,10,2\n", "0,10,3\n"):
        trace.write_text("arrived_at,prompt_tokens,output_tokens\n" + rows)
        for ms in (5, 6):
            table.write_text(f"batch,ms\n1,{ms}\n")
            (case,) = cases("g", read_grid(written(tmp_path, text)))
            seen.add(case.key)
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[run]]\nlimit = 2\n", 'no trace: give trace = "FILE"'),
        (
            "trace = '-'\n[[run]]\nlimit = 2\n",
            "trace: a trace from standard input can be read only",
        ),
        ("trace = 'no.csv'\n[[run]]\nlimit = 2\n", "no.csv: no such file"),
        (
            "[grid]\nkv_token = [4]\n",
            "grid.kv_token: replay has no option 'kv_token' (did you mean",
        ),
        ("[grid]\nhelp = [true]\n", "grid.help: replay has no option 'help'; it has allocator, "),
        ("[grid]\nrate = [-4]\n", "grid.rate: --rate is -4, must be a number > 0"),
        (
            "[grid]\nrate = [true]\n",
            "grid.rate: True is no value for rate, must be text or a number",
        ),
        ("[grid]\nclosed-loop = [1]\n", "grid.closed-loop: 1 is no value for closed_loop, must be"),
        ("[grid]\nengine = ['slow']\n", "grid.engine: --engine is slow, must be fast or reference"),
        ("[[run]]\ntruncate = 'foo'\n", "run 1: truncate: truncate is 'foo', must be last:N or"),
        ("[grid]\nallocator = ['pagd']\n", "grid.allocator: pagd: there is no part 'pagd'"),
        ("[grid]\nallocator = [3]\n", "grid.allocator: 3: there is no part '3'"),
        ("scheduler = 'orca:x=1'\n[[run]]\n", "scheduler: orca:x=1: orca has no option 'x'"),
        ("json = 'x'\n[[run]]\nlimit = 2\n", "json: json is no part of a configuration: every"),
        (
            "trace = 'chat'\n[grid]\nrate = [4, 4.0]\n",
            "two runs are the same configuration: 'rate=4'",
        ),
        (
            "[[run]]\nmax-len = 4\nmax_model_len = 4\n",
            "run 1: max_model_len: max_model_len and max-len",
        ),
    ],
)
def test_options_that_are_wrong_say_where(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        of(tmp_path, text)
    assert str(caught.value).startswith(f"g.toml: {said}"), caught.value


def test_a_worker_in_another_folder_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chat").mkdir()  # in nobody's way
    (tmp_path / "s.csv").write_text("batch,ms\n1,7\n")
    (tmp_path / "t.csv").write_bytes(Path(TRACE).read_bytes())
    text = 'limit = 2\nsteptime = "table:s.csv"\n[grid]\ntrace = ["t.csv", "chat"]\n'
    monkeypatch.chdir(tmp_path)
    found = cases("g", read_grid(written(tmp_path, text)))
    here = [to_json(answer(case)) for case in found]
    assert b'"table:s.csv"' in here[0]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert [to_json(answer(case, str(tmp_path))) for case in found] == here


def test_a_trace_that_changes_under_way_is_noticed(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("arrived_at,prompt_tokens,output_tokens\n0,10,2\n")
    (case,) = cases("g", read_grid(written(tmp_path, f"trace = '{trace}'\n[[run]]\nlimit = 1\n")))
    trace.write_text("arrived_at,prompt_tokens,output_tokens\n0,10,3\n")
    with pytest.raises(InputError, match=r"t\.csv: was changed while the sweep went on"):
        answer(case)


PARTS = """
from pagedsim import Paged


class Mine(Paged):
    def __init__(self, blocks: int, max_len: int, *, spread: int = 1) -> None:
        if spread not in (1, 2):
            raise ValueError("spread must be 1 or 2")
        if spread == 2 and max_len > 3000:
            raise ValueError("too long to spread")
        super().__init__(blocks)
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "allocator = ['parts_of_mine:Mine?spred=2']\n",
            "Mine has no option 'spred'; it has spread",
        ),
        ("allocator = ['paged', 'parts_of_mine:Mine?spread=x']\n", "spread is 'x', must be "),
        (
            "allocator = ['parts_of_mine:Mine?spread=3']\n",
            "Mine cannot be made: ValueError: spread",
        ),
        ("allocator = ['parts_of_mine:Nine']\n", "parts_of_mine has no class Nine"),
        ("allocator = ['paged:groups=some']\n", "groups is some"),
        ("scheduler = ['parts_of_mine:Mine']\n", "Mine needs blocks"),
        ("steptime = ['constant:ms=5', 'constant:mz=5']\n", "constant has no option 'mz'"),
        ("steptime = ['constant:ms=5', 'affine:base_ms=x']\n", "base_ms is 'x', must be "),
    ],
)
def test_a_part_that_no_run_can_make_is_found_before_any_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "parts_of_mine.py").write_text(PARTS)
    with pytest.raises(InputError) as caught:
        of(tmp_path, f"trace = '{TRACE}'\n[grid]\n{text}")
    assert str(caught.value).startswith("g.toml: ")
    assert said in str(caught.value), caught.value


def test_a_part_that_suits_some_runs_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "parts_of_mine.py").write_text(PARTS)
    part = "allocator = ['parts_of_mine:Mine?spread=2']\n"
    assert len(of(tmp_path, f"trace = '{TRACE}'\n[grid]\n{part}max-len = [4000, 2000]\n")) == 2
