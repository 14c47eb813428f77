"""Checked look-ups in a ``config.json``; messages name the file and the key."""

from __future__ import annotations

from typing import Any

from pagedsim.errors import DeviceError


class Config:
    """A JSON object. `find` gives the first of some keys that is there; null counts as absent."""

    def __init__(self, values: dict[str, Any], file: str) -> None:
        self.values, self.file = values, file
        self.kind = str(values.get("model_type") or "").lower()

    def find(self, keys: tuple[str, ...], low: int = 1) -> int | None:
        for key in keys:
            value = self.values.get(key)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < low:
                raise DeviceError(f"{self.file}: {key} is {value!r}, must be an integer >= {low}")
            return value
        return None

    def need(self, keys: tuple[str, ...]) -> int:
        value = self.find(keys)
        if value is None:
            raise DeviceError(f"{self.file}: {keys[0]} is missing (nor is there {_rest(keys)})")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise DeviceError(f"{self.file}: {key} is {value!r}, must be true or false")
        return value

    def words(self, key: str) -> list[str]:
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise DeviceError(f"{self.file}: {key} must be a list of names")
        return value

    def numbers(self, key: str) -> list[int] | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(v) is int for v in value):
            raise DeviceError(f"{self.file}: {key} must be a list of whole numbers")
        return value


def _rest(keys: tuple[str, ...]) -> str:
    return " or ".join(keys[1:]) or "another name for it"


__all__ = ["Config"]
