"""Everything that the lesson shows, as one value: what its page is made of and what its JSON holds.

Schema ``pagedsim.lesson/1``. Bytes, tokens and FLOPs are exact counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pagedsim.analysis.lesson.attention import Attention, attention
from pagedsim.analysis.lesson.memory import (
    BLOCK,
    DTYPES,
    KINDS_MAX_LEN,
    CardNumbers,
    Kind,
    ModelNumbers,
    Room,
    cards,
    kinds,
    models,
    rooms,
    utilization,
)
from pagedsim.analysis.lesson.replays import Replays, replays
from pagedsim.device.dtypes import kv_format
from pagedsim.device.work import work

WORK_UP_TO = 2048
WORK_AT = (1, 14, 512, WORK_UP_TO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """`work` are the counts at `WORK_AT`; the page works out those between by the same formulas."""

    schema: str = "pagedsim.lesson/1"
    work_up_to: int = WORK_UP_TO
    work: list[dict[str, int]]
    attention: Attention
    dtypes: dict[str, int]  # bits of a number
    block: int
    utilization: float
    models: list[ModelNumbers]
    cards: list[CardNumbers]
    rooms: list[Room]
    kinds_max_len: int
    kinds: list[Kind]
    replays: Replays


def lesson(progress: Callable[[int, int], None] | None = None) -> Lesson:
    """The numbers, in a second or two; `progress(done, of)` counts replays."""
    return Lesson(
        work=[work(tokens)._asdict() for tokens in WORK_AT],
        attention=attention(),
        dtypes={name: int(kv_format(name).element * 8) for name in DTYPES},
        block=BLOCK,
        utilization=utilization(),
        models=models(),
        cards=cards(),
        rooms=rooms(),
        kinds_max_len=KINDS_MAX_LEN,
        kinds=kinds(),
        replays=replays(progress),
    )


__all__ = ["WORK_AT", "WORK_UP_TO", "Lesson", "lesson"]
