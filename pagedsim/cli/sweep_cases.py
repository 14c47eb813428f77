"""From a file of runs to cases, and from a case to its result: what a sweep does with options.

Options are read by `replay` itself, so they mean the same and are refused in the same words. A
case is what they come to: the options that differ from their defaults, and a hash of every file
that they name (`sweep_files`), whatever folder it lies in.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec
import typer

from pagedsim.analysis.results import Result, Run
from pagedsim.analysis.simulate import ALLOCATORS, Setup
from pagedsim.analysis.store import Case, key_of
from pagedsim.analysis.sweep_grid import Entry, Scalar
from pagedsim.cli.options import Options
from pagedsim.cli.runs import answered, prepared
from pagedsim.cli.sweep_files import hashed, inputs
from pagedsim.cli.values import UsageError
from pagedsim.errors import InputError, PagedsimError, SpecError
from pagedsim.specs import parse, part_of
from pagedsim.trace import Trace, load
from pagedsim.trace.reading import located
from pagedsim.trace.truncate import parse as parse_truncation

_OUTPUTS = frozenset(
    {"series", "series_steps", "requests", "json", "figure", "report", "perfetto"}
    | {"quiet", "no_color"}
)


@cache
def _replay() -> Any:
    from pagedsim.cli import app

    return typer.main.get_command(app).commands["replay"]  # type: ignore[attr-defined]


@cache
def _names() -> dict[str, Any]:
    """The parameter of every name of an option, as in ``max_len``."""
    return {
        name.lstrip("-").replace("-", "_"): parameter
        for parameter in _replay().params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


def cases(label: str, entries: Iterable[Entry]) -> list[Case]:
    """A case for each entry. InputError names the file, the place and what is there instead.

    A part that cannot be made for any of its runs is found here too, before the first one starts.
    """
    found: dict[str, Case] = {}
    hashes: dict[str, str] = {}
    checked: set[tuple[str, Scalar]] = set()
    for entry in entries:
        config = _config(label, entry, checked)
        files = {
            place: hashes.get(place) or hashes.setdefault(place, hashed(label, place))
            for place in inputs(config)
        }
        key = key_of(config, files)
        if key in found:
            raise InputError(
                f"{label}: two runs are the same configuration: {found[key].name!r} and "
                f"{entry.name!r}"
            )
        found[key] = Case(key=key, name=entry.name, config=config, inputs=files)
    _made(label, list(found.values()))
    return list(found.values())


def _made(label: str, found: Sequence[Case]) -> None:
    """InputError for a part that none of its runs can make; one that fits some of them may stay.

    A part that suits the first of its runs costs one try, so a grid costs one a spec.
    """
    for option in ("allocator", "scheduler", "steptime"):
        runs: dict[str, list[Case]] = {}
        for case in found:
            if option in case.config:
                runs.setdefault(str(case.config[option]), []).append(case)
        for text, its in runs.items():
            if option == "steptime" or not _plain(text):
                refusals = (_refusal(case, text) for case in its)
                first = next(refusals)
                if first is not None and None not in refusals:
                    raise InputError(f"{label}: {its[0].name}: {first}")


def _refusal(case: Case, text: str) -> str | None:
    """Why the part that `text` names cannot be made for `case`; None if it can, as far as known."""
    try:
        _prepared(case, "")
    except SpecError as error:
        own = str(error).startswith((text, f"{text.partition(':')[0]}:"))
        return str(error) if own else None
    except PagedsimError:
        return None
    return None


def _plain(text: str) -> bool:
    """Whether a spec is of parts that ship, and says nothing that hangs on a model."""
    spec = parse(text)
    foreign = spec.path is not None or any(":" in word for word in spec.words.values())
    return not foreign and "groups" not in spec.words


def _config(label: str, entry: Entry, checked: set[tuple[str, Scalar]]) -> dict[str, Any]:
    """The options of `replay` that an entry comes to, without those that are the default.

    An option's value is read once by itself, so that a message can say where it was given.
    """
    given: dict[str, Scalar] = {}
    places: dict[str, str] = {}
    for key, value in entry.options.items():
        place = f"{label}: {entry.places[key] or key}"
        name = _parameter(place, key)
        if name in given:
            raise InputError(f"{place}: {key} and {places[name]} are one option: give it once")
        given[name], places[name] = value, key
        if (name, value) not in checked:
            _read(place, {"trace": "chat", name: value})
            _understood(place, name, str(value))
            checked.add((name, value))
    if "trace" not in given:
        raise InputError(f'{label}: no trace: give trace = "FILE", a bundled name, or several')
    values = _read(f"{label}: {entry.name}", given)
    return {name: values[name] for name in sorted(values) if values[name] != _default(name)}


def _understood(place: str, name: str, text: str) -> None:
    """InputError for a spec that no run could take; others are tried with a run of theirs."""
    try:
        if name == "truncate":
            parse_truncation(text)
        elif name in ("allocator", "scheduler") and _plain(text):
            part_of(text)
    except SpecError as error:
        raise InputError(f"{place}: {error}") from None


def _parameter(place: str, key: str) -> str:
    """The option that `key` means."""
    found = _names().get(key.replace("-", "_"))
    known = sorted(
        {parameter.name.replace("_", "-") for parameter in _names().values()}
        - {name.replace("_", "-") for name in (*_OUTPUTS, "help")}
    )
    if found is None or found.name == "help":
        close = difflib.get_close_matches(key.replace("_", "-"), known, 1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise InputError(f"{place}: replay has no option {key!r}{hint}; it has {', '.join(known)}")
    if found.name in _OUTPUTS:
        raise InputError(
            f"{place}: {key} is no part of a configuration: every result is kept, and "
            "`pagedsim sweep collect` makes a table of them"
        )
    return str(found.name)


def _words(given: Mapping[str, Scalar]) -> list[str]:
    """The command line of `replay` that says `given`, which is by parameter."""
    options = {parameter.name: parameter for parameter in _replay().params}
    words: list[str] = []
    for name, value in given.items():
        if name == "trace":
            continue
        option = max(options[name].opts, key=lambda opt: opt.startswith("--"))
        if isinstance(value, bool) and getattr(options[name], "is_flag", False):
            words += [option] * value
        else:
            words.append(f"{option}={value}")
    trace = str(given["trace"])
    return [*words, "--", trace] if trace.startswith("-") else [trace, *words]


def _read(place: str, given: Mapping[str, Scalar]) -> dict[str, Any]:
    """The values of all options, as `replay` reads them."""
    options = {parameter.name: parameter for parameter in _replay().params}
    for name, value in given.items():
        flag = getattr(options[name], "is_flag", False)
        if flag is not isinstance(value, bool):
            wanted = "true or false" if flag else "text or a number"
            raise InputError(f"{place}: {value!r} is no value for {name}, must be {wanted}")
    try:
        context = _replay().make_context("replay", _words(given))
    except PagedsimError as error:
        raise InputError(f"{place}: {error}") from None
    except UsageError as error:
        said = str(getattr(error, "format_message", error.__str__)()).rstrip(".")
        raise InputError(f"{place}: {said[:1].lower()}{said[1:]}") from None
    if context.params["trace"] == "-":
        raise InputError(f"{place}: a trace from standard input can be read only once: give a file")
    return {
        name: os.fspath(value) if isinstance(value, Path) else value
        for name, value in context.params.items()
        if name not in _OUTPUTS
    }


@cache
def _default(name: str) -> Any:
    return next(parameter.default for parameter in _replay().params if parameter.name == name)


def defaults() -> dict[str, Any]:
    """What `replay` takes where an option is not given."""
    return {p.name: p.default for p in _replay().params if p.name not in _OUTPUTS}


# One case.


@lru_cache(maxsize=2)
def _trace(path: str, zero_output: str, sha256: str) -> Trace:
    """A trace, loaded once in a process however many of its cases run there one after another."""
    trace = load(path, zero_output=zero_output)  # type: ignore[arg-type]
    if trace.sha256 not in ("", sha256):
        raise InputError(f"{path}: was changed while the sweep went on: run it again")
    return trace


def command(case: Case) -> str:
    """The command line that runs a case alone."""
    return shlex.join(["pagedsim", "replay", *_words(case.config)])


def answer(case: Case, folder: str = "") -> Result:
    """Run a case whose files are named as seen from `folder` ("": where this process is).

    The bytes of the result depend on the case alone. Raises PagedsimError.
    """
    values, (allocators, options, setup) = _prepared(case, folder)
    path = os.fspath(located(values["trace"]))
    base = _trace(path, options.zero_output, case.inputs[f"trace={case.config['trace']}"])
    base = base if options.limit is None else base.head(options.limit)
    _, found = answered(base, allocators, options, setup)
    return msgspec.structs.replace(found, runs=tuple(_timeless(run, case) for run in found.runs))


def _prepared(case: Case, folder: str) -> tuple[dict[str, Any], tuple[list[str], Options, Setup]]:
    """The values of a case's options, and what they come to: every part of it is made once."""
    values = _read(case.name, _seen_from(folder, case))
    chosen = {field.name: values[field.name] for field in fields(Options) if field.name in values}
    given: Sequence[str] = [values["allocator"]] if values["allocator"] else []
    return values, prepared(given, ALLOCATORS[-1:], Options(**chosen), command(case))


def _seen_from(folder: str, case: Case) -> dict[str, Any]:
    """The options of a case; a worker need not be in the folder that the sweep was started in."""
    config = dict(case.config)
    for place in case.inputs:
        option, _, value = place.partition("=")
        kind, colon, path = value.partition(":") if option == "steptime" else ("", "", value)
        there = os.path.join(folder, path)
        if os.path.lexists(there) and not (option == "trace" and os.path.isdir(there)):
            config[option] = f"{kind}{colon}{there}"
    return config


def _timeless(run: Run, case: Case) -> Run:
    """Without when, how long and in which folder, so that equal cases give equal bytes."""
    told = msgspec.structs.replace(run.provenance, created="", wall_s=None)
    if "steptime" in case.config:
        spec = case.config["steptime"]
        seen, said = (text.partition(":")[2] for text in (str(told.specs["steptime"]), spec))
        words = tuple(line.replace(seen, said) if seen else line for line in told.estimates)
        told = msgspec.structs.replace(
            told, specs={**told.specs, "steptime": spec}, estimates=words
        )
    return msgspec.structs.replace(run, provenance=told)


__all__ = ["answer", "cases", "command", "defaults"]
