"""A recipe: what a generated trace is like. TOML on disk, frozen structs in memory.

Tables: ``[arrivals]`` (poisson, gamma, diurnal, saturate), ``[prompt]`` and ``[output]`` (any model
of `pagedsim.trace.lengthmodels`), and, where wanted, ``[system]`` (shared system prompts),
``[turns]`` (conversations) and ``[agent]`` (tool calls). With turns or an agent, arrivals are those
of sessions. docs/formats.md shows each.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np

from pagedsim.errors import InputError
from pagedsim.protocols import Int64
from pagedsim.trace import arrivals
from pagedsim.trace.lengthmodels import Model, resolve


class _Arrivals(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Each has ``times(count, seed)``: arrivals in ns, and ``words(seed)``: the load's name."""


class Poisson(_Arrivals, frozen=True, tag="poisson"):
    """Independent exponential gaps, `rate` a second."""

    rate: float

    def times(self, count: int, seed: int) -> Int64:
        return arrivals.poisson_ns(count, self.rate, seed)

    def words(self, seed: int) -> str:
        return f"Poisson {self.rate:g}/s, seed {seed}"


class Gamma(_Arrivals, frozen=True, tag="gamma"):
    """Gamma gaps; `cv` above 1 is burstier than Poisson."""

    rate: float
    cv: float

    def times(self, count: int, seed: int) -> Int64:
        return arrivals.gamma_ns(count, self.rate, self.cv, seed)

    def words(self, seed: int) -> str:
        return f"gamma {self.rate:g}/s, cv {self.cv:g}, seed {seed}"


class Diurnal(_Arrivals, frozen=True, tag="diurnal"):
    """Poisson with a rate that swings by ± `swing` over `period_s`."""

    rate: float
    swing: float
    period_s: float = 86400.0

    def times(self, count: int, seed: int) -> Int64:
        return arrivals.diurnal_ns(count, self.rate, self.swing, self.period_s, seed)

    def words(self, seed: int) -> str:
        return f"diurnal {self.rate:g}/s ± {self.swing:.0%} in {self.period_s:g} s, seed {seed}"


class Saturate(_Arrivals, frozen=True, tag="saturate"):
    """All at time 0."""

    rate: float = float("inf")

    def times(self, count: int, seed: int) -> Int64:
        return np.zeros(count, np.int64)

    def words(self, seed: int) -> str:
        return "saturated: all at time 0"


class System(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`prompts` system prompts of `tokens`; a `share` of sessions starts with one.

    The k-th is chosen with weight ``k ** -skew``.
    """

    prompts: int
    tokens: Model
    share: float = 1.0
    skew: float = 1.0


class Turns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A session has `count` turns, each `think_s` after the answer to the one before."""

    count: Model
    think_s: Model


class Agent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A turn makes `calls` tool calls: `output` tokens each, whose result of `tokens` tokens comes
    `seconds` later and is appended; then it answers.
    """

    calls: Model
    tokens: Model
    output: Model
    seconds: Model


ArrivalModel: TypeAlias = Poisson | Gamma | Diurnal | Saturate


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All of it. `requests` or `seconds` says how much; `about` says what it is shaped after.

    `max_total` bounds prompt + output: without sessions the pair is drawn again, a session ends
    before the turn that would pass it. `token_ms` and `wait_ms` are the assumed pace of answers, by
    which recorded arrivals of later turns are set. Times are rounded to `tick_us`.
    """

    name: str
    arrivals: ArrivalModel
    prompt: Model
    output: Model
    about: str = ""
    requests: int | None = None
    seconds: float | None = None
    seed: int = 0
    max_total: int | None = None
    system: System | None = None
    turns: Turns | None = None
    agent: Agent | None = None
    samples: int = 1
    token_ms: float = 25.0
    wait_ms: float = 500.0
    tick_us: int = 1


def read(path: str | os.PathLike[str]) -> Recipe:
    """A recipe file, with what it takes from other files. Raises InputError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{os.fspath(path)}: cannot be read: {reason}") from None
    return parse(text, os.fspath(path), Path(path).parent)


def parse(text: str, label: str = "recipe", folder: Path | None = None) -> Recipe:
    """A recipe from TOML text; `label` goes into messages, files are sought from `folder`."""
    try:
        recipe = msgspec.convert(tomllib.loads(text), Recipe)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"{label}: not a recipe: {error}") from None
    return checked(recipe, label, folder or Path())


def checked(recipe: Recipe, label: str = "recipe", folder: Path | None = None) -> Recipe:
    """The recipe with its models resolved. Raises InputError with the field that is wrong."""
    changes: dict[str, Any] = {}
    for key in ("prompt", "output"):
        changes[key] = _model(label, key, getattr(recipe, key), folder)
    for key in ("system", "turns", "agent"):
        table = getattr(recipe, key)
        if table is not None:
            inner = {
                name: _model(label, f"{key}.{name}", value, folder)
                for name in table.__struct_fields__
                if isinstance(value := getattr(table, name), Model)
            }
            changes[key] = msgspec.structs.replace(table, **inner)
    bounds = [
        ("requests", recipe.requests is None or 1 <= recipe.requests <= 10**8, "from 1 to 10^8"),
        ("seconds", recipe.seconds is None or 0 < recipe.seconds <= 10**9, "> 0, at most 10^9"),
        ("seed", recipe.seed >= 0, ">= 0"),
        ("samples", recipe.samples >= 1, ">= 1"),
        ("tick_us", 1 <= recipe.tick_us <= 10**9, ">= 1"),
        ("token_ms", 0 <= recipe.token_ms < 10**6, ">= 0"),
        ("wait_ms", 0 <= recipe.wait_ms < 10**9, ">= 0"),
        ("max_total", recipe.max_total is None or recipe.max_total >= 2, ">= 2"),
        ("system.prompts", recipe.system is None or recipe.system.prompts >= 1, ">= 1"),
        ("system.share", recipe.system is None or 0 <= recipe.system.share <= 1, "from 0 to 1"),
    ]
    for key, fine, must in bounds:
        if not fine:
            raise InputError(f"{label}: {key} must be {must}")
    if (recipe.requests is None) == (recipe.seconds is None):
        raise InputError(f"{label}: needs either requests or seconds")
    if recipe.seconds is not None and isinstance(recipe.arrivals, Saturate):
        raise InputError(f"{label}: saturated arrivals need requests, not seconds")
    return msgspec.structs.replace(recipe, **changes)


def _model(label: str, key: str, model: Model, folder: Path | None) -> Model:
    try:
        return resolve(model, folder or Path())
    except ValueError as error:
        raise InputError(f"{label}: {key}: {error}") from None


__all__ = [
    "Agent",
    "Diurnal",
    "Gamma",
    "Poisson",
    "Recipe",
    "Saturate",
    "System",
    "Turns",
    "checked",
    "parse",
    "read",
]
