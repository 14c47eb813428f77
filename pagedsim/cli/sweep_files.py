"""The files that a configuration of a sweep names, and what they hold, as a hash."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

from pagedsim.errors import InputError, PagedsimError
from pagedsim.trace.reading import located
from pagedsim.trace.source import open_source

_FILES = ("trace", "model", "engine_log", "steptime")  # options that may name a file


def inputs(config: Mapping[str, Any]) -> list[str]:
    """``option=path`` of each file, in order."""
    found = []
    for option in _FILES:
        value = config.get(option)
        if value is None:
            continue
        if option == "steptime":
            kind, _, path = str(value).partition(":")
            if kind not in ("table", "fitted") or not path:
                continue
        elif option == "model" and not os.path.exists(str(value)):
            continue
        found.append(f"{option}={value}")
    return found


def _path(place: str) -> str:
    """The file behind ``option=path``."""
    option, _, value = place.partition("=")
    if option == "trace":
        return os.fspath(located(value))
    if option == "model" and os.path.isdir(value):
        return os.path.join(value, "config.json")
    return value.partition(":")[2] if option == "steptime" else value


def hashed(label: str, place: str) -> str:
    """Of the bytes; of a trace, of the decompressed ones, as results have it."""
    try:
        path = _path(place)
        if place.startswith("trace="):
            return open_source(path).sha256
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except PagedsimError as error:
        raise InputError(f"{label}: {error}") from None
    except OSError as error:
        raise InputError(f"{label}: {path}: cannot be read: {error.strerror}") from None


__all__ = ["hashed", "inputs"]
