"""The built-in models and GPUs, and how a name finds one.

Names match without case or punctuation; a publisher before a slash and words that do not change
a shape (``Instruct``, ``chat``, ``hf``, …) are ignored where the rest is a name. Words that do
change it (``AWQ``, ``FP8``) are not: say ``--weights-dtype``. The tables are read on first use.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec

from pagedsim.device.gpu import Gpu
from pagedsim.device.hfconfig import read_config
from pagedsim.device.shape import Model
from pagedsim.errors import DeviceError

_DECORATION = frozenset(
    {"base", "chat", "hf", "inst", "instruct", "it", "meta", "nvidia", "preview", "pt", "amd"}
)


_T = TypeVar("_T", bound=Model | Gpu)
_Rows: TypeAlias = tuple[tuple[_T, tuple[str, ...]], ...]


def find_model(name: str) -> Model:
    """The model called `name`, or described by the ``config.json`` at the path `name`.

    A path is a file that exists, a folder with a ``config.json``, or anything ending in ``.json``.
    DeviceError lists what exists, closest first.
    """
    path = Path(name)
    if name.lower().endswith(".json") or path.is_file() or (path / "config.json").is_file():
        return read_config(path)
    if name and path.is_dir() and _plain(name) not in _names(_models()):
        raise DeviceError(f"{name}: the folder has no config.json")
    return _find(name, "model", _models())


def find_gpu(name: str) -> Gpu:
    """The GPU called `name`; a family name means its SXM card where that is one card."""
    return _find(name, "GPU", _gpus())


def model_names() -> tuple[str, ...]:
    """Names of the built-in models, in table order."""
    return tuple(model.name for model, _ in _models())


def gpu_names() -> tuple[str, ...]:
    """Names of the built-in GPUs, in table order."""
    return tuple(gpu.name for gpu, _ in _gpus())


@cache
def _models() -> _Rows[Model]:
    return tuple(_rows("models.json", Model))


@cache
def _gpus() -> _Rows[Gpu]:
    return tuple(_rows("gpus.json", Gpu))


def _rows(file: str, kind: type[_T]) -> Iterable[tuple[_T, tuple[str, ...]]]:
    raw = resources.files("pagedsim.device").joinpath("data", file).read_bytes()
    known = {field.name for field in fields(kind)}
    for name, row in msgspec.json.decode(raw).items():
        aliases = tuple(row.pop("aliases", ()))
        assert set(row) <= known, f"{file}: {name}: {set(row) - known}"
        yield msgspec.convert({"name": name, **row}, kind), aliases


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _core(name: str) -> str:
    words = [w for w in re.split(r"[^a-z0-9.]+", name.lower()) if w and w not in _DECORATION]
    return _plain("".join(words))


def _names(rows: _Rows[_T]) -> dict[str, _T]:
    return {_plain(n): item for item, aliases in rows for n in (item.name, *aliases)}


def _find(name: str, what: str, rows: _Rows[_T]) -> _T:
    names = _names(rows)
    last = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    for key in (_plain(name), _plain(last), _core(last)):
        if key in names:
            return names[key]
    key = _core(last)
    all_names = [item.name for item, _ in rows]
    starts = {item.name: item for known, item in names.items() if key and known.startswith(key)}
    if len(starts) == 1:
        return next(iter(starts.values()))
    if starts:
        raise DeviceError(f"{what} {name!r} is ambiguous; it could be: {', '.join(starts)}")
    close = difflib.get_close_matches(key, list(names), n=5, cutoff=0.4)
    first = list(dict.fromkeys(names[c].name for c in close))
    rest = [n for n in all_names if n not in first]
    hint = "; a Hugging Face config.json works too" if what == "model" else ""
    raise DeviceError(f"unknown {what} {name!r}; there are: {', '.join([*first, *rest])}{hint}")


__all__ = ["find_gpu", "find_model", "gpu_names", "model_names"]
