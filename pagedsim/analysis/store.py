"""A folder of results, one file a configuration, that many processes may fill together.

    KEY.json          what a case gave: its configuration, the version, the result
    KEY.failed.json   what went wrong instead; removed when the case succeeds
    KEY.claim         somebody is at it: which process on which machine
    sweep.json        the cases of the last sweep in this folder, in order

A *case* is one configuration; its *key* is a hash of the options and of the bytes of every file
they name, so equal keys give equal results. Files appear whole or not at all, and end in a hash of
what stands before it, so one that was cut or changed is found. A claim saves work and no result
rests on it: two processes that run one case write the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pagedsim import __version__
from pagedsim.analysis import claims
from pagedsim.analysis.results import Result
from pagedsim.errors import InputError, PagedsimError
from pagedsim.files import write_whole

SCHEMA, PLAN_SCHEMA = "pagedsim.sweep/1", "pagedsim.sweep-plan/1"
PLAN = "sweep.json"
_LEFT_S = 3600.0  # half-written files of a killed process are removed after so long

_KEY = re.compile(r"[0-9a-f]{24}")
_SEAL = re.compile(rb',"sha256":"([0-9a-f]{64})"}\n')
_SEALED = 78  # bytes of a seal


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration: options that differ from their defaults, and hashes of files they name."""

    key: str
    name: str
    config: dict[str, Any]
    inputs: dict[str, str] = {}


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong: the error's class, and its message."""

    kind: str
    message: str


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds: a result or a failure."""

    schema: str = SCHEMA
    version: str = __version__
    case: Case
    result: Result | None = None
    failure: Failure | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The cases of a sweep."""

    schema: str = PLAN_SCHEMA
    version: str = __version__
    cases: tuple[Case, ...]


class State(Enum):
    """How a case stands in the folder."""

    ABSENT = "absent"
    DONE = "done"
    FAILED = "failed"
    DAMAGED = "damaged"
    OTHER_VERSION = "of another version"


class Damaged(PagedsimError):
    """A file that does not end in the hash of what stands before it, or holds another case."""


class OtherVersion(PagedsimError):
    """A whole file that another version of pagedsim wrote; `version` is that one."""

    def __init__(self, message: str, version: str) -> None:
        super().__init__(message)
        self.version = version


_T = TypeVar("_T", Record, Plan)


def key_of(config: dict[str, Any], inputs: dict[str, str]) -> str:
    """24 hexadecimal digits that say which configuration it is."""
    said = json.dumps([config, inputs], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(said.encode()).hexdigest()[:24]


class Store:
    """The folder at `path`. Nothing is read or written before a method is called."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __getstate__(self) -> dict[str, Path]:
        """A worker need not be in the same folder."""
        return {"path": self.path.absolute()}

    def open(self) -> None:
        """Make the folder if it is not there; InputError unless files can be written in it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be a folder: {error.strerror}") from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise InputError(f"{self.path}: cannot be written: the folder is read-only")
        now = time.time()
        for left in self.path.glob(".*.json.*"):
            with suppress(OSError):
                if now - left.stat().st_mtime > _LEFT_S:
                    left.unlink()
        for left in self.path.glob("*.claim"):
            if not claims.claimed(left):
                left.unlink(missing_ok=True)

    def file(self, key: str) -> Path:
        """Where the result of `key` is, or will be."""
        return self.path / f"{key}.json"

    def failed_file(self, key: str) -> Path:
        """Where it says why there is none."""
        return self.path / f"{key}.failed.json"

    def claim_file(self, key: str) -> Path:
        """What is there while somebody is at it."""
        return self.path / f"{key}.claim"

    def found(self) -> list[str]:
        """Keys of all files of results, sound or not, sorted."""
        return sorted(p.stem for p in self.path.glob("*.json") if _KEY.fullmatch(p.stem))

    def state(self, key: str) -> State:
        """How a case stands. A failure counts only where there is no result."""
        for file, state in (
            (self.file(key), State.DONE),
            (self.failed_file(key), State.FAILED),
        ):
            try:
                self._record(file, key)
            except FileNotFoundError:
                continue
            except Damaged:
                if state is State.DONE:
                    return State.DAMAGED
            except OtherVersion:
                if state is State.DONE:
                    return State.OTHER_VERSION
            else:
                return state
        return State.ABSENT

    def record(self, key: str) -> Record:
        """The result of `key`. Raises Damaged, OtherVersion or FileNotFoundError."""
        return self._record(self.file(key), key)

    def idle(self, key: str) -> bool:
        """Whether there is a result of a run without a step: every request was refused."""
        try:
            result = self.record(key).result
        except (FileNotFoundError, Damaged, OtherVersion):
            return False
        return result is not None and not any(run.steps for run in result.runs)

    def failure(self, key: str) -> Failure | None:
        """What went wrong the last time; None where nothing did, or nobody can tell."""
        try:
            return self._record(self.failed_file(key), key).failure
        except (FileNotFoundError, Damaged, OtherVersion):
            return None

    def failed_at(self, key: str) -> int:
        """When the failure was written, in ns; 0 where there is none."""
        try:
            return self.failed_file(key).stat().st_mtime_ns
        except OSError:
            return 0

    def succeed(self, case: Case, result: Result) -> None:
        """Write a result. InputError where it cannot be written; nothing is half-written."""
        _write(self.file(case.key), Record(case=case, result=result))
        with suppress(OSError):
            self.failed_file(case.key).unlink(missing_ok=True)

    def fail(self, case: Case, failure: Failure) -> None:
        """Write what went wrong."""
        _write(self.failed_file(case.key), Record(case=case, failure=failure))

    def plan(self) -> Plan:
        """The cases of the last sweep. InputError where the folder holds none."""
        path = self.path / PLAN
        try:
            return _read(path, Plan, PLAN_SCHEMA)
        except FileNotFoundError:
            said = "is no folder of a sweep" if self.path.is_dir() else "no such folder"
            raise InputError(f"{self.path}: {said}: there is no {path}") from None
        except OtherVersion as error:
            raise InputError(f"{error}: run the sweep again, or use that version") from None
        except Damaged as error:
            raise InputError(f"{error}: run the sweep again, it loses nothing") from None

    def write_plan(self, cases: Iterable[Case]) -> None:
        """Say which cases there are."""
        _write(self.path / PLAN, Plan(cases=tuple(cases)))

    @contextmanager
    def claim(self, key: str) -> Iterator[bool]:
        """Whether the case is ours while the block runs; False where somebody else is at it."""
        with claims.claim(self.claim_file(key)) as mine:
            yield mine

    def claimed(self, key: str) -> bool:
        """Whether somebody is at it now."""
        return claims.claimed(self.claim_file(key))

    def _record(self, path: Path, key: str) -> Record:
        found = _read(path, Record, SCHEMA)
        case = found.case
        if not key == case.key == key_of(case.config, case.inputs):
            raise Damaged(f"{path}: holds another configuration, {case.key}")
        if path == self.file(key) and found.result is None:
            raise Damaged(f"{path}: holds no result")
        return found


def _write(path: Path, what: msgspec.Struct) -> None:
    body = msgspec.json.encode(what)
    seal = b',"sha256":"' + hashlib.sha256(body).hexdigest().encode() + b'"}\n'
    with write_whole(path) as file:
        file.write(body[:-1] + seal)


def _read(path: Path, kind: type[_T], schema: str) -> _T:
    """What `_write` wrote. Raises FileNotFoundError, Damaged or OtherVersion, in that order."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    seal = _SEAL.fullmatch(data[-_SEALED:])
    body = data[:-_SEALED] + b"}"
    if seal is None or hashlib.sha256(body).hexdigest().encode() != seal[1]:
        raise Damaged(f"{path}: is damaged: it does not end in the hash of its content")
    try:
        head = msgspec.json.decode(body)
        version = str(head.get("version"))
        if head.get("schema") != schema or version != __version__:
            said = f"{path}: was written by pagedsim {version}, this is {__version__}"
            raise OtherVersion(said, version)
        return msgspec.convert(head, kind)
    except (msgspec.DecodeError, msgspec.ValidationError, AttributeError) as error:
        raise Damaged(f"{path}: is damaged: {error}") from None


__all__ = [
    "PLAN",
    "Case",
    "Damaged",
    "Failure",
    "OtherVersion",
    "Plan",
    "Record",
    "State",
    "Store",
    "key_of",
]
