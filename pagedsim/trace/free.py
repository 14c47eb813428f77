"""Memory that is free, so that what needs more is refused before it begins.

A process that asks for more than there is is not refused by Linux: it is killed, half-way, or takes
others with it.
"""

from __future__ import annotations

from pathlib import Path

from pagedsim.errors import InputError

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")  # of a container: its own limit, and what it has taken of it


def free_bytes() -> int | None:
    """Bytes that this process could take now; None where the system does not say."""
    known = []
    try:
        _, _, after = _MEMINFO.read_text().partition("MemAvailable:")
        known.append(1024 * int(after.split()[0]))
    except (OSError, ValueError, IndexError):
        pass
    try:
        most, taken = ((_GROUP / f"memory.{key}").read_text() for key in ("max", "current"))
        known.append(max(0, int(most) - int(taken)))
    except (OSError, ValueError):  # no group, or "max": no limit
        pass
    return min(known, default=None)


def check_room(what: str, need: int) -> None:
    """InputError where `what` needs more bytes than are free; nothing where that is not known."""
    free = free_bytes()
    if free is not None and need > free:
        raise InputError(
            f"{what} take about {need:,} bytes of memory ({_gib(need)}), of which {free:,} "
            f"({_gib(free)}) are free: give fewer requests"
        )


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


__all__ = ["check_room", "free_bytes"]
