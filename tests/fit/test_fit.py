"""Step times fitted to measured steps: what made them is found again, and rubbish is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pagedsim.analysis.fit import LEAST, Log, errors, fit_affine, fit_roofline, write
from pagedsim.analysis.fit import _least as least
from pagedsim.cli import app
from pagedsim.device import Affine, Roofline, make_device
from pagedsim.device.fitted import read_fitted
from pagedsim.device.steplog import Measured, read_steps
from pagedsim.errors import InputError
from pagedsim.protocols import Load
from pagedsim.specs import make_steptime

LOG = Log("log.csv", "0" * 64)
DEVICE = make_device("llama-3.1-8b", "a100-80gb")


def steps(model: Any, count: int = 60, noise: float = 0, seed: int = 1) -> list[Measured]:
    """Decode, prefill and mixed steps of a server whose steps take what `model` says."""
    rng = np.random.default_rng(seed)
    rows = []
    for at in range(count):
        batch = int(rng.integers(1, 200))
        prompt = 0 if at % 3 else int(rng.integers(16, 4000))
        batch = 1 if at % 6 == 3 else batch
        context = prompt + (batch - (prompt > 0)) * int(rng.integers(50, 3000))
        row = Measured(batch, min(1, prompt), prompt, context, 1.0)
        ms = model.ns(row.load) / 1e6 * (1 + noise * float(rng.uniform(-1, 1)))
        rows.append(row._replace(ms=ms))
    return rows


@given(
    base=st.floats(0.1, 50),
    seq=st.sampled_from([0.0, 0.01, 0.419]),
    prefill=st.sampled_from([0.0, 30.0, 150.0]),
    context=st.sampled_from([0.0, 5.0, 90.0]),
)
def test_affine_coefficients_are_found_again(
    base: float, seq: float, prefill: float, context: float
) -> None:
    model = Affine(
        base_ms=base, per_seq_ms=seq, per_prefill_token_us=prefill, per_context_token_ns=context
    )
    found = fit_affine(steps(model), LOG)
    assert found.errors[0].worst < 1e-4
    assert found.options["base_ms"] == pytest.approx(base, rel=1e-3)
    assert found.options["per_prefill_token_us"] == pytest.approx(prefill, rel=1e-3, abs=1e-3)
    assert found.options["per_context_token_ns"] == pytest.approx(context, rel=1e-3, abs=1e-3)


@given(
    mfu=st.sampled_from([0.15, 0.5, 0.83, 1.0]),
    mbu=st.sampled_from([0.3, 0.8, 1.0]),
    overhead=st.sampled_from([0.0, 2.0, 9.0]),
)
def test_a_roofline_is_found_again(mfu: float, mbu: float, overhead: float) -> None:
    made = steps(Roofline(DEVICE, mfu=mfu, mbu=mbu, overhead_ms=overhead))
    found = fit_roofline(made, LOG, DEVICE)
    assert found.errors[0].worst < 1e-3
    assert found.options["mfu"] == pytest.approx(mfu, rel=1e-2)
    assert found.options["mbu"] == pytest.approx(mbu, rel=1e-2)
    assert found.options["overhead_ms"] == pytest.approx(overhead, rel=1e-2, abs=1e-2)
    assert found.assumed == ()


def test_noise_is_what_is_left_over() -> None:
    made = steps(Roofline(DEVICE, mfu=0.42, mbu=0.7, overhead_ms=5), count=200, noise=0.03)
    affine, roofline = fit_affine(made, LOG), fit_roofline(made, LOG, DEVICE)
    assert roofline.errors[0].mean == pytest.approx(0.015, abs=0.004)
    assert abs(roofline.errors[0].bias) < 0.004
    assert affine.errors[0].mean > 2 * roofline.errors[0].mean


@given(data=st.data())
def test_least_squares_meet_the_conditions_of_an_optimum(data: st.DataObject) -> None:
    """Karush, Kuhn and Tucker: no column may lower the error, those in use have no slope left."""
    rows = data.draw(st.integers(3, 8))
    number = st.integers(-9, 9).map(float)
    columns = np.array(
        data.draw(st.lists(st.lists(number, min_size=3, max_size=3), min_size=rows, max_size=rows))
    )
    target = np.array(data.draw(st.lists(number, min_size=rows, max_size=rows)))
    found = least(columns, np.ones(rows), target)
    assert (found >= 0).all()
    slope = columns.T @ (columns @ found - target)
    scale = 1e-4 * (1 + np.abs(columns).sum() * (1 + np.abs(target).max()))
    assert (slope >= -scale).all()
    assert (np.abs(slope[found > 0]) <= scale).all()


def test_what_no_row_tells_is_assumed_and_said() -> None:
    made = steps(Roofline(DEVICE, mfu=0.3, mbu=0.6), 200)
    decode = [r for r in made if not r.prefill and r.sequences < 40]
    found = fit_roofline(decode, LOG, DEVICE)
    assert found.assumed == ("mfu",)
    assert found.options["mfu"] == 0.5
    assert found.options["mbu"] == pytest.approx(0.6, rel=1e-3)
    assert fit_affine(decode, LOG).assumed == ("no cost of prefill tokens",)
    assert "mfu assumed, for no row tells" in found.sentence(DEVICE)


def test_errors_by_hand() -> None:
    model = Affine(base_ms=10)
    rows = [
        Measured(1, 0, 0, 9, 10.0),
        Measured(4, 0, 0, 9, 8.0),  # 25 % above
        Measured(1, 1, 50, 50, 20.0),  # half
        Measured(3, 1, 50, 90, 12.5),  # 20 % below
    ]
    found = {(e.region, e.batch): e for e in errors(rows, model)}
    whole = found["all", "all"]
    assert (whole.rows, whole.worst) == (4, 0.5)
    assert whole.mean == pytest.approx((0 + 0.25 + 0.5 + 0.2) / 4)
    assert whole.bias == pytest.approx((0 + 0.25 - 0.5 - 0.2) / 4)
    assert {key: e.rows for key, e in found.items()} == {
        **{("all", "all"): 4, ("all", "small"): 2, ("all", "large"): 2},
        **{("decode only", "all"): 2, ("decode only", "small"): 1, ("decode only", "large"): 1},
        **{("prefill only", "all"): 1, ("prefill only", "small"): 1},
        **{("mixed", "all"): 1, ("mixed", "large"): 1},
    }


def test_the_load_of_a_row() -> None:
    assert Measured(3, 0, 0, 300, 1).load == Load(3, 0, 3, 300, 300)
    assert Measured(1, 1, 10, 10, 1).load == Load(1, 1, 10, 55, 10)
    assert Measured(4, 2, 20, 320, 1).load == Load(4, 2, 22, 300 + 2 * 55, 320)


def test_a_file_is_the_model_it_says(tmp_path: Path) -> None:
    made = steps(Roofline(DEVICE, mfu=0.4, mbu=0.7, overhead_ms=3))
    for fitted in (fit_affine(made, LOG), fit_roofline(made, LOG, DEVICE)):
        path = tmp_path / f"{fitted.kind}.json"
        write(path, fitted)
        assert read_fitted(path) == fitted
        model = make_steptime(f"fitted:{path}", device=DEVICE)
        plain = make_steptime(fitted.spec(), device=DEVICE)
        for row in made:
            assert model.ns(row.load) == plain.ns(row.load)
    other = make_device("llama-3.1-8b", "h100")
    assert fitted.sentence(other).endswith(
        "measured on Llama-3.1-8B on A100-80GB-SXM (tp 1), carried over to this"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "0 different steps in 0 rows, must be >= 5"),
        ("batch\n1\n", ":1: column 'ms' is missing; there are: sequences"),
        ("ms\n1\n", ":1: column 'batch' is missing"),
        ("batch,sequences,ms\n1,1,1\n", ":1: column 'batch' is there twice"),
        ("batch,ms\n0,1\n", ":2: batch is 0, must be >= 1"),
        ("batch,ms\n1,0\n", ":2: ms is 0, must be > 0"),
        ("batch,ms\n1,nan\n", ":2: ms is nan, must be > 0"),
        ("batch,ms\n1,x\n", ":2: ms is 'x', must be a number > 0"),
        ("batch,ms\n1.5,2\n", ":2: batch is '1.5', must be an integer >= 0"),
        ("batch,ms\n1\n", ":2: 1 fields, must be 2"),
        ("batch,prefill_tokens,context,ms\n1,50,20,3\n", ":2: context is 20, must be >= 50"),
        ("batch,prefill_tokens,prefills,ms\n1,50,0,3\n", ":2: prefill_tokens is 50, but prefills"),
        ("batch,prefill_tokens,prefills,ms\n1,50,2,3\n", ":2: prefills is 2, must be <= 1"),
        ("batch,ms\n" + "1,2\n" * 9, "1 different steps in 9 rows, must be >= 5"),
    ],
)
def test_a_log_that_is_wrong_says_where(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        fit_affine(read_steps(tmp_path / "log.csv"), LOG)
    assert said in str(caught.value)
    assert "log.csv" in str(caught.value)
    assert LEAST == 5


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("{}", "schema must be 'pagedsim.steptime/1', it is None; see pagedsim fit"),
        ("[]", "schema must be"),
        ('{"schema": "pagedsim.steptime/1"}', "Object missing required field"),
        (
            '{"schema":"pagedsim.steptime/1","version":"0","kind":"odd","options":{},"rows":5,'
            '"source":"x","sha256":"","errors":[]}',
            "kind is 'odd', must be affine or roofline",
        ),
        (
            '{"schema":"pagedsim.steptime/1","version":"0","kind":"affine","options":{"x":1},'
            '"rows":5,"source":"x","sha256":"","errors":[]}',
            "there is no option 'x'; there are base_ms",
        ),
    ],
)
def test_a_file_that_is_wrong_says_so(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "fit.json"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        make_steptime(f"fitted:{path}", device=DEVICE)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)


def say(*args: str) -> tuple[int, str, str]:
    ran = CliRunner().invoke(app, args, env={"COLUMNS": "80"})
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return ran.exit_code, ran.stdout, ran.stderr


def test_from_a_log_to_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = steps(Roofline(DEVICE, mfu=0.4, mbu=0.7, overhead_ms=3))
    lines = [f"{r.sequences},{r.prefill},{r.context},{r.ms!r}" for r in made]
    Path("log.csv").write_text("\n".join(["batch,prefill_tokens,context,ms", *lines]))
    where = ("--model", "llama-3.1-8b", "--gpu", "a100-80gb")
    code, out, err = say("fit", "log.csv", *where, "--out", "fit.json")
    assert (code, err) == (0, "")
    assert "roofline (chosen): mfu=0.4" in out
    assert out.endswith("Use it: --steptime fitted:fit.json\n")
    assert max(map(len, out.splitlines())) <= 80
    kinds = {}
    specs = ("fitted:fit.json", "roofline", "constant:ms=9", "affine:base_ms=9")
    for spec in specs:
        code, out, _ = say("replay", "chat", "--limit", "5", "--steptime", spec, "--json", "-")
        assert code == 0
        told = json.loads(out)["runs"][0]["provenance"]
        kinds[spec] = told["step_times"]
        assert any(line.startswith("Step times are ") for line in told["estimates"])
        code, out, _ = say("replay", "chat", "--limit", "5", "--steptime", spec)
        assert "Step times are " in out
    assert list(kinds.values()) == ["fitted", "estimated", "given", "given"]
    code, out, _ = say(
        "compare", "chat", "--limit", "5", "--steptime", specs[0], "--report", "r.html"
    )
    assert "fitted: roofline, to 60 measured steps of log.csv" in " ".join(out.split())
    assert "Step times are fitted: roofline" in Path("r.html").read_text()


def test_what_is_wrong_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("batch,ms\n1,2\n2,3\n3,4\n4,5\n5,6\n")
    for args, said in (
        (("no.csv",), "no.csv: cannot be read: No such file or directory"),
        (("log.csv", "--kind", "roofline"), "--kind is roofline, which is of a model on a GPU"),
        (("log.csv", "--gpu", "h100"), "a roofline is of a model on a GPU: give both"),
        (("log.csv", "--out", "log.csv"), "--out: log.csv is the log as well"),
        (("log.csv", "--kind", "cubic"), "--kind is cubic, must be affine or roofline"),
    ):
        code, out, err = say("fit", *args)
        assert (code, out) == (2, "")
        assert err.startswith(f"error: {said}"), err
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]
    code, out, _ = say("fit", "log.csv", "--json", "-")
    found = json.loads(out)
    assert (code, found["chosen"]) == (0, "affine")
    assert found["fits"][0]["options"] == {
        **{"base_ms": 1.0, "per_seq_ms": 1.0},
        **{"per_prefill_token_us": 0.0, "per_context_token_ns": 0.0},
    }
