"""Public traces by name: downloaded once, checked by sha256, kept in the user's cache.

Only traces whose checksum is known are here; their URLs name a commit, so they do not move. A
download appears in the cache when it is complete and checked, never before. PAGEDSIM_CACHE sets
another folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pagedsim.errors import InputError, SpecError


class Public(NamedTuple):
    """Where a trace is, what it must hash to, and whose it is."""

    url: str
    sha256: str
    about: str
    licence: str

    @property
    def file(self) -> str:
        """Its name in the cache."""
        return f"{self.sha256[:12]}-{self.url.rsplit('/', 1)[-1]}"


_RAW = "https://raw.githubusercontent.com"
SOURCES: Mapping[str, Public] = {
    "azure-2023-conv": Public(
        f"{_RAW}/Azure/AzurePublicDataset/790921015d50dd6aae7f7e47f39ba0e235ad6b08/data/"
        "AzureLLMInferenceTrace_conv.csv",
        "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
        "19,366 requests of a chat service in 58 minutes; lengths only",
        "CC-BY-4.0, Azure Public Dataset (Patel et al., ISCA 2024)",
    ),
    "mooncake-conversation": Public(
        f"{_RAW}/kvcache-ai/Mooncake/a2a4b18ac537fd798d50e6e9f57031ce86419a37/FAST25-release/"
        "traces/conversation_trace.jsonl",
        "b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df",
        "12,031 requests of a chat service in 59 minutes, with hash ids",
        "Apache-2.0, kvcache-ai/Mooncake (Qin et al., FAST'25)",
    ),
    "sharegpt-lengths": Public(
        f"{_RAW}/AKafakA/vidur_opt_scheduler/91c9e1f6c83f26a2fa7c47e6a8c24c458c9bb734/data/"
        "processed_traces/sharegpt_V3_format_lens.csv",
        "7c658696a320c9ebfda8b149616532931ea6967279e26318d9afe2ab0aecf05a",
        "58,000 prompt and reply lengths; no times",
        "MIT, AKafakA/vidur_opt_scheduler",
    ),
}


def folder() -> Path:
    """The cache: PAGEDSIM_CACHE, else the user's cache folder."""
    given = os.environ.get("PAGEDSIM_CACHE")
    if given:
        return Path(given)
    return Path(_pooch().os_cache("pagedsim"))


def _pooch() -> Any:
    """The library, imported when it is needed: it takes a tenth of a second."""
    import pooch

    return pooch


def cached(name: str, sources: Mapping[str, Public] = SOURCES) -> Path | None:
    """The fetched file, if it is there and holds what it must."""
    if name not in sources:
        return None
    path = folder() / sources[name].file
    try:
        whole = hashlib.sha256(path.read_bytes()).hexdigest() == sources[name].sha256
    except OSError:
        return None
    return path if whole else None


def public(name: str, sources: Mapping[str, Public] = SOURCES) -> Public:
    """What is known of a public trace; SpecError if there is none of that name."""
    if name not in sources:
        raise SpecError(f"{name}: no public trace of that name; there are: {', '.join(sources)}")
    return sources[name]


def fetch(
    name: str,
    sources: Mapping[str, Public] = SOURCES,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Download a trace unless it is there; returns the file.

    `progress` is told now and then how many bytes are there, and of how many (0 = unknown).
    Raises SpecError for an unknown name, InputError where the download fails or its checksum is
    wrong; then nothing is left behind.
    """
    source = public(name, sources)
    there = cached(name, sources)
    if there is not None:
        return there
    import requests

    pooch = _pooch()
    place = folder()
    log = pooch.get_logger()
    level = log.level
    log.setLevel("WARNING")
    try:
        (place / source.file).unlink(missing_ok=True)  # there, but broken
        found = pooch.retrieve(
            source.url,
            f"sha256:{source.sha256}",
            fname=source.file,
            path=place,
            downloader=pooch.HTTPDownloader(progressbar=_Told(progress) if progress else False),
        )
    except requests.RequestException as error:
        reason = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        raise InputError(f"{name}: the download failed: {reason} ({source.url})") from None
    except ValueError:
        text = f"sha256 of what {source.url} sent is not {source.sha256}"
        raise InputError(f"{name}: {text}; nothing was kept") from None
    except OSError as error:
        raise InputError(f"{name}: cannot write to {place}: {error.strerror or error}") from None
    finally:
        log.setLevel(level)
    return Path(found)


class _Told:
    """What pooch asks of a progress bar, as calls of a function."""

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        self._tell = tell
        self._done = 0
        self.total = 0  # pooch sets it once it knows

    def update(self, count: int) -> None:
        """So many bytes more."""
        self._done += count  # whole chunks: the last one may be shorter
        if self.total:
            self._done = min(self._done, self.total)
        self._tell(self._done, self.total)

    def reset(self) -> None:
        """Back to the start; pooch does so before it fills the bar."""
        self._done = 0

    def close(self) -> None:
        """All of it is there."""


__all__ = ["SOURCES", "Public", "cached", "fetch", "folder", "public"]
