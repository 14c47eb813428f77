"""A recipe: what a generated trace is like. TOML on disk, frozen structs in memory.

Tables: ``[arrivals]`` (poisson, gamma, diurnal, profile, saturate), ``[prompt]`` and ``[output]``
(any model of `pagedsim.trace.lengthmodels`), and, where wanted, ``[system]`` (shared system
prompts) or ``[prefixes]`` (a tree of them), ``[turns]`` (conversations) and ``[agent]`` (tool
calls). With turns or an agent, arrivals are those
of sessions. docs/formats.md shows each.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, get_args

import msgspec

from pagedsim.errors import InputError
from pagedsim.trace.arrivalmodels import ArrivalModel, Profile, Saturate
from pagedsim.trace.fields import LONGEST
from pagedsim.trace.lengthmodels import ByPrompt, Model, resolve
from pagedsim.trace.misspelt import hint


class System(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`prompts` system prompts of `tokens`; a `share` of sessions starts with one.

    The k-th is chosen with weight ``k ** -skew``.
    """

    prompts: int
    tokens: Model
    share: float = 1.0
    skew: float = 1.0


class Prefixes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tree of prefixes that sessions start with.

    Node k (from 1) has ``tokens[k - 1]`` of its own after those of node ``under[k - 1]``, an
    earlier one, 0 being the empty start. ``shares[k - 1]`` of all sessions start with exactly what
    leads to it and go on with tokens of their own; the rest share nothing.
    """

    tokens: list[int]
    under: list[int]
    shares: list[float]

    def check(self) -> None:
        """Raise ValueError where this is no tree."""
        if not len(self.tokens) == len(self.under) == len(self.shares) >= 1:
            raise ValueError("tokens, under and shares must have the same length, at least 1")
        for node, (tokens, under, share) in enumerate(
            zip(self.tokens, self.under, self.shares, strict=True), 1
        ):
            if not 1 <= tokens <= LONGEST:
                raise ValueError(f"tokens of node {node} is {tokens}, must be from 1 to {LONGEST}")
            if not 0 <= under < node:
                raise ValueError(f"under of node {node} is {under}, must be from 0 to {node - 1}")
            if not 0 <= share <= 1:
                raise ValueError(f"share of node {node} is {share:g}, must be from 0 to 1")
        if sum(self.shares) > 1 + 1e-9:
            raise ValueError(f"shares add up to {sum(self.shares):g}, must be at most 1")


class Cuts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Turns that keep only part of the last prompt, and not its answer.

    ``shares[k]`` of the turns after a prompt of at least ``bounds[k - 1]`` and below ``bounds[k]``
    tokens do, `kept` being the share that stays, `prompt` the new tokens after it.
    """

    bounds: list[float]
    shares: list[float]
    kept: Model
    prompt: Model

    def check(self) -> None:
        """Raise ValueError where these are no shares."""
        if len(self.shares) != len(self.bounds) + 1:
            raise ValueError("shares need one number more than bounds")
        if self.bounds != sorted(self.bounds):
            raise ValueError("bounds must rise")
        if not all(0 <= share <= 1 for share in self.shares):
            raise ValueError("shares must be from 0 to 1")


class Turns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A session has `count` turns, each `think_s` after the answer to the one before.

    `first` are the new tokens of the first turn where more follow, `prompt` those of later turns
    (without them, the recipe's prompt). Where `answers` is false the answer is not part of the next
    prompt.
    """

    count: Model
    think_s: Model
    first: Model | None = None
    prompt: Model | None = None
    answers: bool = True
    cuts: Cuts | None = None


class Agent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A turn makes `calls` tool calls: `output` tokens each, whose result of `tokens` tokens comes
    `seconds` later and is appended; then it answers.
    """

    calls: Model
    tokens: Model
    output: Model
    seconds: Model


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
    prefixes: Prefixes | None = None
    turns: Turns | None = None
    agent: Agent | None = None
    samples: int = 1
    token_ms: float = 25.0
    wait_ms: float = 500.0
    tick_us: int = 1


_KINDS = (
    *(Recipe, System, Prefixes, Turns, Cuts, Agent),
    *get_args(ArrivalModel),
    *get_args(Model),
)


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
        known = [name for kind in _KINDS for name in kind.__struct_fields__]
        said = hint(str(error), known)
        raise InputError(f"{label}: not a recipe: {error}{said}") from None
    return checked(recipe, label, folder or Path())


def checked(recipe: Recipe, label: str = "recipe", folder: Path | None = None) -> Recipe:
    """The recipe with its models resolved. Raises InputError with the field that is wrong."""
    changes: dict[str, Any] = {}
    for key in ("prompt", "output"):
        changes[key] = _model(label, key, getattr(recipe, key), folder)
    for key in ("system", "prefixes", "turns", "agent"):
        changes[key] = _table(label, key, getattr(recipe, key), folder)
    if recipe.system is not None and recipe.prefixes is not None:
        raise InputError(f"{label}: give either system or prefixes")
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
            value = recipe
            for name in key.split("."):
                value = getattr(value, name)
            raise InputError(f"{label}: {key} is {value}, must be {must}")
    if (recipe.requests is None) == (recipe.seconds is None):
        raise InputError(f"{label}: needs either requests or seconds")
    if isinstance(recipe.arrivals, Profile) and not (
        recipe.arrivals.rates and all(0 <= rate < 1e9 for rate in recipe.arrivals.rates)
    ):
        raise InputError(f"{label}: arrivals.rates must be numbers >= 0, at least one")
    if recipe.seconds is not None and isinstance(recipe.arrivals, Saturate):
        raise InputError(f"{label}: saturated arrivals need requests, not seconds")
    return msgspec.structs.replace(recipe, **changes)


def _table(label: str, key: str, table: Any, folder: Path | None) -> Any:
    """The table with the models in it resolved, and those of tables within it."""
    if table is None:
        return None
    if isinstance(table, Prefixes | Cuts):
        try:
            table.check()
        except ValueError as error:
            raise InputError(f"{label}: {key}: {error}") from None
    changes: dict[str, Any] = {}
    for name in table.__struct_fields__:
        value = getattr(table, name)
        if isinstance(value, Model):
            changes[name] = _model(label, f"{key}.{name}", value, folder)
        elif isinstance(value, Cuts):
            changes[name] = _table(label, f"{key}.{name}", value, folder)
    return msgspec.structs.replace(table, **changes)


def _model(label: str, key: str, model: Model, folder: Path | None) -> Model:
    if isinstance(model, ByPrompt) and key != "output":
        raise InputError(f"{label}: {key}: by_prompt is a model of output only")
    try:
        return resolve(model, folder or Path())
    except ValueError as error:
        raise InputError(f"{label}: {key}: {error}") from None


__all__ = [
    "Agent",
    "Cuts",
    "Prefixes",
    "Recipe",
    "System",
    "Turns",
    "checked",
    "parse",
    "read",
]
