"""`pagedsim paper` and `pagedsim field`: lists, tables, JSON and exit codes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from command import pagedsim, refused
from rich.cells import cell_len

from pagedsim.analysis.experiments import catalogue
from pagedsim.analysis.experiments.experiment import Bench, Experiment, Found, Row

pytestmark = pytest.mark.usefixtures("folder")


def test_the_lists_name_every_experiment() -> None:
    for command, among in (("paper", catalogue.PAPERS), ("field", catalogue.FIELD)):
        said = pagedsim(command, "list", "--json", "list.json")
        assert said.code == 0
        names = [line.split()[0] for line in said.out.splitlines() if line[:1].strip()]
        assert names == [one.name for one in among]
        assert all(cell_len(line) <= 80 for line in said.out.splitlines())
        listed = msgspec.json.decode(Path("list.json").read_bytes())
        assert [row["name"] for row in listed] == names


def test_a_table_and_its_file() -> None:
    said = pagedsim("paper", "table1", "--json", "t.json")
    assert said.code == 0
    assert "6 of 6 hard targets hold" in said.out
    assert all(cell_len(line) <= 80 for line in said.out.splitlines())
    found = msgspec.json.decode(Path("t.json").read_bytes())
    assert found["schema"] == "pagedsim.experiment/1"
    first = found["rows"][0]
    assert (first["published"], first["ours"]) == (15.7, 15.728)
    assert first["holds"] is True
    assert first["difference"] == pytest.approx(0.028)


def test_json_on_standard_output_is_alone() -> None:
    said = pagedsim("paper", "fig1", "--json", "-")
    assert msgspec.json.decode(said.out)["name"] == "fig1"


def test_a_hard_target_that_is_missed_is_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(settings: object, bench: Bench) -> Found:
        return Found(
            [
                Row(name="off", published=1.0, ours=2.0, tolerance=0.1),
                Row(name="soft", published=1.0, ours=2.0, note="because"),
                Row(name="own", ours=2.0),
            ]
        )

    one = Experiment(name="wrong", title="t", source="s", measure=measure, settings=0, quick=0)
    monkeypatch.setattr(catalogue, "PAPERS", (one,))
    said = pagedsim("paper", "wrong", "--json", "w.json")
    assert said.code == 1
    assert "MISSES" in said.out
    assert "0 of 1 hard targets hold, 1 soft, 1 with no published value at hand" in said.out
    assert "[1] because" in said.out
    rows = msgspec.json.decode(Path("w.json").read_bytes())["rows"]
    assert [row.get("holds") for row in rows] == [False, None, None]
    assert pagedsim("paper", "wrong", "--quick").code == 0


def test_mistakes_are_2_and_say_what_there_is() -> None:
    assert "fig99: no experiment of that name; there are: list, table1" in refused("paper", "fig99")
    assert "--jobs is 0" in refused("paper", "fig1", "--jobs", 0)
    assert "fig1 needs no trace" in refused("paper", "fig1", "--trace", "t.csv")
    assert "list takes none" in refused("field", "list", "--quick")
    assert "cannot be written" in refused("paper", "fig1", "--json", "nowhere/t.json")
    assert ".png" in refused("paper", "fig1", "--figure", "t.txt")
    assert "as well" in refused("paper", "fig1", "--figure", "a.svg", "--json", "a.svg")


def test_a_figure_is_written(folder: Path) -> None:
    assert pagedsim("paper", "fig1", "--figure", "f.svg").code == 0
    assert b"throughput at batch 40" in (folder / "f.svg").read_bytes()
