"""Errors that a person can act on.

    PagedsimError            anything that a user can put right; the command line exits with 2
    ├── InputError           a trace, table or log that cannot be read: place, value, bound
    ├── SpecError            an option, a NAME:key=value spec, or a name that does not exist
    ├── DeviceError          a model, GPU or pool that does not work out
    │   └── StartupError     an engine would refuse to start: one request does not fit
    └── ContractError        a plug-in broke its contract (see pagedsim.protocols)

A refusal is a value (``False``), misuse an exception, an impossibility an ``assert``.
"""

from __future__ import annotations


class PagedsimError(Exception):
    """Base of all errors that a user can put right."""


class InputError(PagedsimError):
    """A file that cannot be read, or a row in it; the message starts with ``file:line:``."""


class SpecError(PagedsimError):
    """An option or spec that cannot be understood; the message lists what exists."""


class DeviceError(PagedsimError):
    """A model, GPU or pool that does not work out."""


class StartupError(DeviceError):
    """One request of the longest allowed does not fit; an engine refuses to start.

    `longest` is the length that would fit (0: none), the bytes are of rank `rank`.
    """

    def __init__(self, message: str, *, rank: int, needed: int, available: int, longest: int):
        super().__init__(message)
        self.rank, self.needed, self.available = rank, needed, available
        self.longest = longest


class ContractError(PagedsimError):
    """An allocator, scheduler or step-time model that broke its contract."""


__all__ = [
    "ContractError",
    "DeviceError",
    "InputError",
    "PagedsimError",
    "SpecError",
    "StartupError",
]
