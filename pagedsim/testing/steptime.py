"""The laws of a step-time model, and loads to try it on.

A load is that of a batch that could be: it is drawn as sequences, each with what it has stored and
what it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

from pagedsim.protocols import Load, SupportsFew, SupportsMany, SupportsRamp
from pagedsim.testing.explore import Suite
from pagedsim.testing.laws import BrokenLaw, Judge, Over
from pagedsim.testing.sizes import makers, name_of

LAWS = {
    "calls": "no load raises an error",
    "positive": "a step takes a whole number of nanoseconds, at least 1",
    "pure": "the same load takes the same time, whatever was asked in between",
    "ramp": "`ramp` is int64, and equals `ns` of each step",
    "few": "`few` equals `ns` of each step",
    "many": "`many` is int64, and equals `ns` of each load",
}


@st.composite
def loads(draw: st.DrawFn, *, most: int = 6, longest: int = 5000) -> Load:
    """A load of up to `most` sequences of up to `longest` tokens; the empty one among them."""
    seqs = draw(st.lists(st.tuples(st.integers(0, longest), st.integers(1, 600)), max_size=most))
    decodes = draw(st.booleans())
    rows = [(stored, 1 if decodes else more) for stored, more in seqs]
    return Load(
        sequences=len(rows),
        prefills=0 if decodes else sum(more > 1 or not stored for stored, more in rows),
        tokens=sum(more for _, more in rows),
        pairs=sum(more * stored + more * (more + 1) // 2 for stored, more in rows),
        context=sum(stored + more for stored, more in rows),
    )


def steptime_suite(make: Callable[..., Any]) -> Suite:
    """All laws of a step-time model over what `make` builds."""

    def run(judge: Judge, given: settings) -> None:
        @given
        @examples(makers(make), loads(), loads(), st.integers(0, 12))
        def keeps_its_laws(maker: Any, load: Load, other: Load, steps: int) -> None:
            judge.examples += 1
            with suppress(Over):
                _judge(judge, maker, load, other, steps)

        keeps_its_laws()

    return Suite("step time", name_of(make), LAWS, run)


def _judge(judge: Judge, maker: Any, load: Load, other: Load, steps: int) -> None:
    log = [f"model = {maker}"]
    model = maker()

    def ask(said: str, function: Callable[..., Any], *args: Any) -> Any:
        judge.calls += 1
        log.append(said)
        try:
            answer = function(*args)
        except (BrokenLaw, Over):
            raise
        except Exception as error:
            judge.hold("calls", False, f"{type(error).__name__}: {error}", log)
            raise
        judge.checked["calls"] += 1
        log[-1] += f" -> {answer}"
        return answer

    for protocol in (SupportsRamp, SupportsFew, SupportsMany):
        there = isinstance(model, protocol)
        (judge.present if there else judge.absent).add(protocol.__name__)
    first = ask(f"ns({load})", model.ns, load)
    whole = isinstance(first, int | np.integer) and not isinstance(first, bool) and first >= 1
    judge.hold("positive", whole, lambda: f"{first!r} is no whole number >= 1", log)
    ask(f"ns({other})", model.ns, other)
    again = ask(f"ns({load})", model.ns, load)
    judge.hold("pure", first == again, lambda: f"{first}, then {again}", log)
    fresh = maker().ns(load)
    judge.hold("pure", first == fresh, lambda: f"{first}, but {fresh} of an equal model", log)
    each = [model.ns(_after(load, j)) for j in range(steps)]
    if isinstance(model, SupportsRamp):
        ramp = ask(f"ramp({load}, {steps})", model.ramp, load, steps)
        good = isinstance(ramp, np.ndarray) and ramp.dtype == np.int64
        judge.hold("ramp", good, "no int64 array", log)
        judge.hold("ramp", ramp.tolist() == each, lambda: f"ns of each is {each}", log)
    if isinstance(model, SupportsFew):
        few = ask(f"few({load}, {steps})", model.few, load, steps)
        judge.hold("few", list(few) == each, lambda: f"ns of each is {each}", log)
    rows = [load, other, load, *(_after(other, j) for j in range(steps))]
    times = [model.ns(row) for row in rows]
    if isinstance(model, SupportsMany):
        many = ask(f"many({rows})", model.many, np.array(rows, np.int64))
        good = isinstance(many, np.ndarray) and many.dtype == np.int64
        judge.hold("many", good, "no int64 array", log)
        judge.hold("many", many.tolist() == times, lambda: f"ns of each is {times}", log)
        none = ask("many([])", model.many, np.zeros((0, 5), np.int64))
        judge.hold("many", len(none) == 0, "of no loads there are times", log)


def _after(load: Load, step: int) -> Load:
    more = step * load.sequences
    return load._replace(pairs=load.pairs + more, context=load.context + more)


__all__ = ["LAWS", "loads", "steptime_suite"]
