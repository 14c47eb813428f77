"""Sessions as a recipe draws them: what each request asks, and what it holds of those before."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from pagedsim.trace.lengthmodels import ByPrompt, Model, answered
from pagedsim.trace.recipe import Cuts, Recipe

_LONG = 10_000  # turns of a session, calls of a turn


class Held:
    """What a session holds of its own: `runs` of ids, `next` being the first that is not used."""

    def __init__(self, base: int) -> None:
        self.runs: list[tuple[int, int]] = []
        self.next = base
        self.prompt = 0  # tokens of the runs
        self._answer = (base, 0)

    def ask(self, tokens: int) -> None:
        """New tokens at the end of the prompt."""
        self._append(self.next, tokens)
        self.next += tokens

    def answer(self, tokens: int) -> None:
        """New tokens after it, which are part of the next prompt if `recall` says so."""
        self._answer = (self.next, tokens)
        self.next += tokens

    def recall(self) -> None:
        """The last answer becomes part of the prompt."""
        self._append(*self._answer)

    def cut(self, share: float) -> None:
        """Only the first `share` of the prompt stays."""
        left = round(min(1.0, max(0.0, share)) * self.prompt)
        runs, self.runs, self.prompt = self.runs, [], 0
        for first, length in runs:
            if left > 0:
                self._append(first, min(length, left))
            left -= length

    def _append(self, first: int, length: int) -> None:
        self.prompt += length
        if self.runs and sum(self.runs[-1]) == first:
            first, length = self.runs[-1][0], self.runs.pop()[1] + length
        self.runs.append((first, length))


class Cut(NamedTuple):
    """What a turn would keep and add if it cuts, which `rank` decides once the prompt is known."""

    rank: float
    kept: float
    new: int


class Step(NamedTuple):
    """A request of a session. `output` of a by_prompt model is a rank yet."""

    new: int
    output: float
    ranked: bool
    wait_s: float
    cut: Cut | None = None


class Plan:
    """Draws sessions one after another, each model from a buffer of its own."""

    def __init__(self, recipe: Recipe, rng: np.random.Generator) -> None:
        self.recipe = recipe
        self._rng = rng
        self._ready: dict[str, list[float]] = {}
        self._ranked = isinstance(recipe.output, ByPrompt)

    def session(self) -> list[Step]:
        """The requests of the next session."""
        recipe, agent, later = self.recipe, self.recipe.agent, self.recipe.turns
        found = []
        turns = min(self._whole("turns", later.count), _LONG) if later else 1
        for turn in range(turns):
            wait = self._next("think", later.think_s) if later and turn else 0.0
            new = self._new(turn, turns)
            cut = self._cut(later.cuts) if later and later.cuts and turn else None
            for _ in range(min(self._whole("calls", agent.calls, 0), _LONG) if agent else 0):
                assert agent is not None
                output = self._whole("call", agent.output)
                found.append(Step(new, output, False, wait, cut))
                new, wait = self._whole("result", agent.tokens), self._next("tool", agent.seconds)
                cut = None
            found.append(Step(new, self._next("output", recipe.output), self._ranked, wait, cut))
        return found

    def cuts(self, step: Step, prompt: int) -> Cut | None:
        """How a step cuts the prompt before it, of so many tokens; None if it does not."""
        if step.cut is None:
            return None
        assert self.recipe.turns is not None
        cuts = self.recipe.turns.cuts
        assert cuts is not None
        share = cuts.shares[bisect_right(cuts.bounds, prompt)]
        return step.cut if step.cut.rank < share else None

    def output(self, step: Step, prompt: int) -> int:
        """Tokens of a step's answer to a prompt."""
        if not step.ranked:
            return max(1, round(step.output))
        drawn, prompts = np.array([step.output]), np.array([prompt])
        return int(answered(self.recipe.output, drawn, prompts)[0])

    def _new(self, turn: int, turns: int) -> int:
        later = self.recipe.turns
        if later and later.prompt and turn:
            return self._whole("later", later.prompt)
        if later and later.first and turns > 1 and not turn:
            return self._whole("first", later.first)
        return self._whole("prompt", self.recipe.prompt)

    def _cut(self, cuts: Cuts) -> Cut:
        rank = self._ready.setdefault("cut", [])
        if not rank:
            rank += self._rng.random(1024).tolist()
        return Cut(rank.pop(), self._next("kept", cuts.kept), self._whole("after cut", cuts.prompt))

    def _whole(self, key: str, model: Model, least: int = 1) -> int:
        return max(least, round(self._next(key, model)))

    def _next(self, key: str, model: Model) -> float:
        ready = self._ready.setdefault(key, [])
        if not ready:
            ready += model.draw(self._rng, 1024).tolist()[::-1]
        return ready.pop()


__all__ = ["Cut", "Held", "Plan", "Step"]
