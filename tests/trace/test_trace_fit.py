"""Fitting: what went into a trace comes out of its recipe, and no request of it does."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_cases import tokens, traces
from typer.testing import CliRunner

from pagedsim.cli import app
from pagedsim.errors import InputError
from pagedsim.trace import Trace, load, stats
from pagedsim.trace.arrivalmodels import Profile
from pagedsim.trace.fit.fit import fit
from pagedsim.trace.fit.links import BRANCHES, links
from pagedsim.trace.fit.pauses import pauses
from pagedsim.trace.fit.shapes import coarse, percents, quantiles
from pagedsim.trace.fit.toml import dump
from pagedsim.trace.lengthmodels import ByPrompt, Chances, Constant, Quantiles
from pagedsim.trace.make import make
from pagedsim.trace.recipe import Prefixes, parse

SESSIONS = """
name = "t"
requests = 3000
arrivals = { kind = "poisson", rate = 2.0 }
prompt = { kind = "uniform", lo = 40, hi = 200 }
output = { kind = "uniform", lo = 20, hi = 80 }
system = { prompts = 4, share = 0.75, tokens = { kind = "constant", value = 320 } }
token_ms = 20
wait_ms = 300
[turns]
count = { kind = "chances", chances = [0.4, 0.8] }
think_s = { kind = "uniform", lo = 5, hi = 15 }
prompt = { kind = "uniform", lo = 10, hi = 30 }
"""


@given(st.floats(1e-6, 1e9))
def test_coarse_numbers(value: float) -> None:
    low, near, high = coarse(value, up=-1), coarse(value), coarse(value, up=1)
    assert low <= value * (1 + 1e-9)
    assert value <= high * (1 + 1e-9)
    assert low <= near <= high
    assert high - low <= 0.0101 * value or (10 <= value < 100 and high - low <= 1)
    assert coarse(near) == near
    assert len(f"{near:e}".split("e")[0].rstrip("0")) <= 4  # three digits
    assert coarse(-value) == -near
    if value < 100:
        assert coarse(round(value)) == round(value)


@given(st.integers(1, 100_000))
def test_a_crowd_stands_between_quantiles(count: int) -> None:
    at = percents(count)
    assert (at[0], at[-1]) == (0, 100)
    if len(at) > 2:
        assert min(np.diff(at)) * count / 100 >= 4.99
    assert percents(20) == [0, 25, 50, 75, 100]


def test_quantiles_of_values() -> None:
    rng = np.random.default_rng(5)
    values = np.rint(rng.lognormal(5, 1.2, 20_000)).astype(np.int64) + 1
    model = quantiles(values)
    drawn = model.draw(np.random.default_rng(1), 20_000)
    for percent in (1, 10, 50, 90, 99):
        assert np.percentile(drawn, percent) == pytest.approx(
            np.percentile(values, percent), rel=0.05
        )
    assert drawn.mean() == pytest.approx(values.mean(), rel=0.02)
    assert quantiles(np.full(30, 7)) == Constant(value=7.0)
    steps = quantiles(np.repeat([3, 9], 500))
    assert isinstance(steps, Quantiles)
    assert len(steps.percents) <= 5  # what says nothing new is left out


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=4))
def test_few_values_are_a_range(values: list[int]) -> None:
    model = quantiles(np.array(values))
    assert isinstance(model, Quantiles)
    assert model.percents == [0, 100]
    for end, exact in zip(model.values, (min(values), max(values)), strict=True):
        assert len(f"{end:.0f}".rstrip("0")) == 1
        assert exact / 2 < end <= 2 * exact
    assert model.values[0] <= min(values) <= max(values) <= model.values[1]


def test_few_sessions_are_said(tmp_path: Path) -> None:
    text = SESSIONS.replace("[0.4, 0.8]", "[0.99]").replace("requests = 3000", "requests = 60")
    found = fit(make(parse(text.replace("rate = 2.0", "rate = 0.01"))))
    assert found.sessions < 4
    assert found.notes[0].startswith(f"only {found.sessions} session")


def plain_links(trace: Trace, size: int) -> tuple[list[int], list[int]]:
    """Heads and parents by the definition, over lists of tokens."""
    own = [tuple(tokens(trace, row)) for row in range(len(trace))]
    salted = [(int(trace.salt[row]), own[row]) for row in range(len(trace))]
    full = [len(one) // size for one in own]

    def part(row: int, blocks: int) -> tuple[int, tuple[int, ...]]:
        return salted[row][0], salted[row][1][: blocks * size]

    heads = []
    for row in range(len(trace)):
        best = 0
        for blocks in range(1, full[row] + 1):
            here = part(row, blocks)
            ways = {
                part(other, blocks + 1)
                for other in range(len(trace))
                if full[other] > blocks and part(other, blocks) == here
            }
            best = blocks if len(ways) >= BRANCHES else best
        heads.append(best)
    parents: list[int] = []
    roots: list[int] = []
    for row in range(len(trace)):
        before = int(trace.parent[row])
        before = before if 0 <= before < row else -1
        if before < 0 and trace.session[row] < 0:
            for blocks in range(full[row], heads[row], -1):
                holders = [
                    other
                    for other in range(row)
                    if full[other] >= blocks
                    and part(other, blocks) == part(row, blocks)
                    and heads[other] < blocks
                ]
                if holders:
                    before = holders[-1]
                    break
        roots.append(roots[before] if before >= 0 else row)
        same = [other for other in range(row) if roots[other] == roots[row]]
        parents.append(same[-1] if before >= 0 else -1)
    return heads, parents


@given(traces(content=True, most=14), st.sampled_from([1, 2]))
def test_links_are_those_of_the_definition(trace: Trace, size: int) -> None:
    trace = replace(trace, extra={"block": size})
    found = links(trace)
    heads, parents = plain_links(trace, size)
    assert found.head.tolist() == heads
    assert found.parent.tolist() == parents
    for row, before in enumerate(parents):
        if before >= 0:
            pairs = zip(tokens(trace, row), tokens(trace, before), strict=False)
            alike = next((n for n, (a, b) in enumerate(pairs) if a != b), None)
            limit = min(trace.prompt[row], trace.prompt[before]) // size
            expected = limit if alike is None else min(limit, alike // size)
            if trace.salt[row] == trace.salt[before]:
                assert found.shared[row] == expected


def test_what_went_in_comes_out() -> None:
    trace = make(parse(SESSIONS))
    found = fit(trace)
    recipe = found.recipe
    assert found.sessions == len(np.unique(trace.session))
    turns, tree = recipe.turns, recipe.prefixes
    assert turns is not None
    assert tree is not None
    assert (recipe.token_ms, recipe.wait_ms, turns.answers, turns.cuts) == (20, 300, True, None)
    assert isinstance(turns.count, Chances)
    assert turns.count.chances[0] == pytest.approx(0.4, abs=0.04)
    assert turns.count.chances[1:] == pytest.approx([0.8] * (len(turns.count.chances) - 1), abs=0.1)
    for model, lo, hi in ((turns.think_s, 5, 15), (turns.prompt, 10, 30), (recipe.prompt, 40, 200)):
        assert isinstance(model, Quantiles)
        assert model.values[0] == pytest.approx(lo, rel=0.1)
        assert model.values[-1] == pytest.approx(hi, rel=0.1)
        assert np.interp(50, model.percents, model.values) == pytest.approx((lo + hi) / 2, rel=0.1)
    assert tree.tokens == [320] * 4
    assert tree.under == [0] * 4
    assert sum(tree.shares) == pytest.approx(0.75, abs=0.04)
    again = make(recipe, seed=3)
    assert stats.reuse(again, 16).with_outputs == pytest.approx(
        stats.reuse(trace, 16).with_outputs, rel=0.02
    )


def test_turns_are_found_without_being_recorded() -> None:
    trace = make(parse(SESSIONS))
    blank = np.full(len(trace), -1)
    anonymous = replace(trace, session=blank, parent=blank, think_ns=blank)
    found, known = fit(anonymous), fit(trace)
    assert found.sessions == pytest.approx(known.sessions, rel=0.02)
    assert found.recipe.turns is not None
    assert found.recipe.turns.answers
    assert (found.recipe.token_ms, found.recipe.wait_ms) == (0, 0)  # from arrival to arrival
    unseen = Trace.build(  # answers that are not part of the next prompt
        "t",
        trace.arrival_ns,
        trace.prompt,
        trace.output,
        runs=(trace.run_rows, trace.run_token, trace.run_length),
    )
    found = fit(unseen)
    assert found.recipe.turns is not None
    assert not found.recipe.turns.answers
    again = make(found.recipe, seed=3)
    assert stats.reuse(again, 16).with_outputs == pytest.approx(
        stats.reuse(unseen, 16).with_outputs, rel=0.03
    )


def test_a_trace_that_ends_amid_sessions() -> None:
    """Pauses of 200 s in a trace of 300 s: those that are seen are short ones."""
    rng = np.random.default_rng(2)
    starts = np.sort(rng.uniform(0, 300, 6000))
    pause = rng.exponential(200, 6000)
    goes_on = rng.random(6000) < 0.6
    rows = [(at, -1) for at in starts]
    later = [
        (starts[k] + pause[k], k) for k in np.flatnonzero(goes_on) if starts[k] + pause[k] < 300
    ]
    rows += later
    order = sorted(range(len(rows)), key=lambda k: rows[k][0])
    place = {old: new for new, old in enumerate(order)}
    parent = [place[rows[k][1]] if rows[k][1] >= 0 else -1 for k in order]
    times = [int(rows[k][0] * 1e9) for k in order]
    trace = Trace.build("t", times, [5] * len(rows), [5] * len(rows), parent=parent)
    found = pauses(trace, np.array(parent))
    assert found is not None
    seen = np.median([at - starts[k] for at, k in later])
    exact = -200 * math.log(1 - (1 - math.exp(-300 / 200)) / 2)  # median of those below 300 s
    assert len(later) == sum(goes_on & (starts + pause < 300))
    assert isinstance(found.think_s, Quantiles)
    middle = np.interp(50, found.think_s.percents, found.think_s.values)
    assert seen < 0.85 * exact
    assert middle == pytest.approx(exact, rel=0.06)
    below = 0.6 * (1 - math.exp(-300 / 200))
    assert isinstance(found.turns, Chances)
    assert found.turns.chances[0] == pytest.approx(below, rel=0.06)
    assert len(later) / len(starts) < 0.75 * below


def test_part_of_a_prompt_that_stays() -> None:
    cuts = "[turns.cuts]\nbounds = [400]\nshares = [0.1, 0.8]\n"
    cuts += 'kept = { kind = "constant", value = 0.5 }\n'
    cuts += 'prompt = { kind = "uniform", lo = 400, hi = 500 }\n'
    found = fit(make(parse(SESSIONS + cuts))).recipe.turns
    assert found is not None
    assert found.cuts is not None
    kept, new = found.cuts.kept, found.cuts.prompt
    assert isinstance(kept, Quantiles)
    assert isinstance(new, Quantiles)
    assert 0.3 < np.interp(50, kept.percents, kept.values) <= 0.5  # whole blocks of it
    assert np.interp(50, new.percents, new.values) == pytest.approx(450, rel=0.05)
    assert found.cuts.shares[0] == pytest.approx(0.1, abs=0.05)
    assert found.cuts.shares[-1] == pytest.approx(0.8, abs=0.05)
    for change, said in (
        ("[400]|[]", "shares need one number more than bounds"),
        ("[400]|[9, 4]", "shares need one number more"),
        ("[400]\nshares = [0.1, 0.8]|[9, 4]\nshares = [0, 0, 0]", "bounds must rise"),
        ("0.8]|1.8]", "shares must be from 0 to 1"),
        ("value = 0.5|values = 1", "unknown field `values`"),
    ):
        with pytest.raises(InputError, match=said):
            parse(SESSIONS + cuts.replace(*change.split("|")))


def test_a_tree_of_prefixes() -> None:
    tree = Prefixes(tokens=[160, 64, 96], under=[0, 1, 0], shares=[0.3, 0.4, 0.2])
    text = dump(parse(SESSIONS)).split("[system]")
    recipe = parse(text[0] + "[turns]" + text[1].split("[turns]")[1])
    import msgspec

    found = fit(make(msgspec.structs.replace(recipe, prefixes=tree))).recipe.prefixes
    assert found is not None
    rows = sorted(zip(found.tokens, found.under, found.shares, strict=True))
    assert [(size, up > 0) for size, up, _ in rows] == [(64, True), (96, False), (160, False)]
    assert [share for _, _, share in rows] == pytest.approx([0.4, 0.2, 0.3], abs=0.04)


def test_the_rate_follows_the_time_of_day() -> None:
    text = PLAIN_PROFILE.format(rates="1, 9, 3", cv=1.0)
    trace = make(parse(text))
    found = fit(trace).recipe.arrivals
    assert isinstance(found, Profile)
    middle = (np.arange(len(found.rates)) + 0.5) * found.window_s
    for window, rate in enumerate((1, 9, 3)):
        inside = (middle > window * 200 + 20) & (middle < (window + 1) * 200 - 20)
        assert np.mean(np.array(found.rates)[inside]) == pytest.approx(rate, rel=0.15)
    assert found.cv == pytest.approx(1, abs=0.08)
    for cv in (0.3, 2.5):
        found = fit(make(parse(PLAIN_PROFILE.format(rates="4", cv=cv)))).recipe.arrivals
        assert isinstance(found, Profile)
        assert found.cv == pytest.approx(cv, rel=0.15)


PLAIN_PROFILE = """
name = "t"
requests = 2600
arrivals = {{ kind = "profile", window_s = 200, rates = [{rates}], cv = {cv} }}
prompt = {{ kind = "uniform", lo = 40, hi = 200 }}
output = {{ kind = "uniform", lo = 20, hi = 80 }}
"""


def test_outputs_go_with_prompts() -> None:
    rng = np.random.default_rng(1)
    prompt = rng.integers(10, 1000, 4000)
    trace = Trace.build(
        "t", np.arange(4000) * 10**8, prompt, 1000 + rng.integers(1, 50, 4000) - prompt // 2
    )
    output = fit(trace).recipe.output
    assert isinstance(output, ByPrompt)
    again = make(fit(trace).recipe)
    left = np.corrcoef(trace.prompt, trace.output)[0, 1]
    assert np.corrcoef(again.prompt, again.output)[0, 1] == pytest.approx(left, abs=0.03)
    assert left < -0.9


def test_clumps_and_untimed_traces() -> None:
    times = np.repeat(np.arange(400) * 3 * 10**9, 5)
    trace = Trace.build("t", times, [9] * 2000, [5] * 2000)
    assert fit(trace).recipe.tick_us == 3_000_000
    again = make(fit(trace).recipe)
    assert set((again.arrival_ns % (3 * 10**9)).tolist()) == {0}
    lengths = replace(trace, timed=False, arrival_ns=np.zeros(2000, np.int64))
    assert fit(lengths).recipe.arrivals.words(0) == "saturated: all at time 0"
    assert make(fit(lengths).recipe).prompt.tolist() == [9] * 2000


def numbers(text: str) -> set[float]:
    return {float(one) for one in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", text)}


def test_nothing_of_a_request_is_in_the_recipe() -> None:
    """Planted names, ids and lengths do not come out."""
    rng = np.random.default_rng(4)
    prompt = rng.integers(100, 9000, 500)
    prompt[77], output = 123_457, rng.integers(100, 900, 500)
    output[78] = 7919
    trace = Trace.build(
        "secret-corp", np.arange(500) * 10**9 + 1_234_567, prompt, output, notes=("secret-note",)
    )
    recipe = fit(trace).recipe
    text = dump(recipe, "head")
    assert "secret" not in text
    held = numbers(text)
    assert not {123_457, 7919, 123_457 + output[77], 7919 + prompt[78]} & held
    assert 124_000 in held  # rounded outwards
    exact = {int(one) for one in (*prompt, *output) if one >= 100 and coarse(one) != one}
    assert len(exact) > 400
    assert not exact & held - {500}


@pytest.mark.parametrize("name", ["agent", "chat", "chat-shared", "code"])
def test_recipes_can_be_read_again(name: str) -> None:
    recipe = fit(load(name)).recipe
    text = dump(recipe, "one\ntwo")
    assert text.startswith("# one\n# two\nname = ")
    assert max(map(len, text.splitlines())) <= 100
    assert parse(text) == recipe
    assert len(text) < 16_000


@given(st.text(max_size=20), st.lists(st.floats(0, 1e12), min_size=2, max_size=60))
def test_any_text_and_number_can_be_written(about: str, values: list[float]) -> None:
    about = about.encode("utf-8", "replace").decode()
    import msgspec

    values.sort()
    model = Quantiles(
        percents=[0.0, *np.linspace(1, 99, len(values) - 2).tolist(), 100.0], values=values
    )
    recipe = msgspec.structs.replace(parse(SESSIONS), about=about, output=model)
    assert parse(dump(recipe)) == recipe


def test_bad_input(tmp_path: Path) -> None:
    for rows, said in ((0, "is empty"), (1, "has 1 of them"), (19, "has 19 of them")):
        trace = Trace.build("few", np.arange(rows), [3] * rows, [4] * rows)
        with pytest.raises(InputError, match=f"few: a fit needs 20 requests or more, .* {said}"):
            fit(trace)
    assert fit(Trace.build("t", np.arange(20), [3] * 20, [4] * 20)).sessions == 20
    same = Trace.build("t", [7] * 30, [3] * 30, [4] * 30)  # all at once
    assert len(make(fit(same).recipe)) == 30


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("prompt = {", "promt = {"), "did you mean prompt? Such as: prompt = { kind ="),
        (("prompt = { kind", "output = { kind"), ""),
        (("arrivals =", "arival ="), "did you mean arrivals? Such as: arrivals = { kind ="),
        (("count =", "counts ="), "did you mean count?"),
        (("think_s =", "think ="), "did you mean think_s?"),
        (('"poisson"', '"posson"'), "docs/formats.md lists the kinds"),
        (("requests = 3000", 'requests = "many"'), "Expected `int"),
        (("[0.4, 0.8]", "[0.4, 1.0]"), "turns.count: the last of chances must be below 1"),
        (("[0.4, 0.8]", "[]"), "chances must hold at least one number"),
        (("[0.4, 0.8]", "[1.4, 0.8]"), "chances must be from 0 to 1"),
        (("[turns]", "[prefixes]\ntokens=[1]\nunder=[0]\nshares=[1]\n[turns]"), "either system or"),
    ],
)
def test_misspelt_recipes(change: tuple[str, str], said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(SESSIONS.replace(*change), "r.toml")
    assert str(caught.value).startswith("r.toml: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (([1, 2], [0], [0.1, 0.1]), "must have the same length"),
        (([0], [0], [0.1]), "tokens of node 1 is 0"),
        (([4], [1], [0.1]), "under of node 1 is 1, must be from 0 to 0"),
        (([4], [0], [1.5]), "share of node 1 is 1.5"),
        (([4, 4], [0, 0], [0.6, 0.6]), "shares add up to 1.2"),
    ],
)
def test_trees_that_are_none(tree: tuple[Any, Any, Any], said: str) -> None:
    tokens_, under, shares = tree
    rows = f"[prefixes]\ntokens = {tokens_}\nunder = {under}\nshares = {shares}\n"
    text = re.sub("system = .*\n", "", SESSIONS)
    with pytest.raises(InputError, match=re.escape(said)):
        parse(text + rows)


def test_scale_and_amount() -> None:
    recipe = parse(SESSIONS)
    one, two = make(recipe, seed=1), make(recipe, seed=1, scale=2.0)
    assert len(two) == 2 * len(one)
    assert two.arrival_ns[-1] == pytest.approx(one.arrival_ns[-1], rel=0.1)
    more = make(recipe, seed=1, requests=6000)
    assert more.arrival_ns[-1] == pytest.approx(2 * one.arrival_ns[-1], rel=0.1)
    profile = parse(PLAIN_PROFILE.format(rates="1, 9, 3", cv=1.0))
    assert len(make(profile, scale=0.5)) == 1300
    saturated = parse(SESSIONS.replace('{ kind = "poisson", rate = 2.0 }', '{ kind = "saturate" }'))
    assert len(make(saturated, scale=0.5)) == 1500


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner(env={"COLUMNS": "80"})
    ran = runner.invoke(app, ["trace", "fit", "chat-shared", "--out", "r.toml", "--json", "j"])
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert all(len(line) <= 80 for line in ran.stdout.splitlines())
    assert "fitted to 2,000 requests in 661 sessions" in ran.stdout
    assert Path("j").read_text().count('"sessions": 661') == 1
    runner.invoke(
        app, ["trace", "make", "r.toml", "--seed", "5", "--scale", "0.2", "-o", "m.jsonl"]
    )
    assert len(load("m.jsonl")) == 400
    Path("one.csv").write_text("prompt,output\n3,9\n")
    for words, said in (
        (["fit", "one.csv", "--out", "x.toml"], "a fit needs 20 requests or more"),
        (["fit", "r.toml", "--out", "x.toml"], "r.toml"),
        (["fit", "one.csv", "--out", "one.csv"], "is the trace as well"),
        (["fit", "chat", "--out", "no/x.toml"], "there is no folder"),
        (["make", "chat", "--requests", "100000001", "-o", "x.jsonl"], "whole number <= 100000000"),
        (["make", "r.toml", "--scale", "0", "-o", "x.jsonl"], "--scale is 0, must be"),
    ):
        ran = runner.invoke(app, ["trace", *words])
        assert ran.exit_code == 2
        assert said in ran.stderr
        assert not Path("x.toml").exists()


@pytest.mark.parametrize("which", ["azure", "mooncake"])
def test_real_hours(which: str, shared: Path) -> None:
    """Part of each hour: mean batch and prefix hit rate are within 10 % of the original's."""
    from pagedsim import simulate
    from pagedsim.device.device import make_device
    from pagedsim.trace import cut

    if which == "azure":
        path = shared / "traces" / "azure-2023" / "AzureLLMInferenceTrace_conv.csv"
        setup: dict[str, Any] = {"device": make_device("llama-3.1-8b", "h100"), "max_len": 16384}
    else:
        path = shared / "traces" / "mooncake" / "conversation_trace.jsonl"
        setup = {"device": make_device("llama-3.1-8b", "h200", tp=8), "max_len": 131072}
    trace = cut.head(load(path), seconds=450 if which == "azure" else 900)
    recipe = parse(dump(fit(trace).recipe))
    given, *made = (
        simulate(one, "paged:prefix=on", **setup).run
        for one in (trace, make(recipe, seed=0), make(recipe, seed=1))
    )
    batch = np.mean([run.batch.mean for run in made])
    hits = np.mean([run.prefix.hit_rate for run in made])
    assert batch == pytest.approx(given.batch.mean, rel=0.1)
    assert hits == pytest.approx(given.prefix.hit_rate, rel=0.1)
    assert (which == "mooncake") == (hits > 0.2)
