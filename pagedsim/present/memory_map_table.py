"""What a scene shows, in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pagedsim.analysis.results import TERMS
from pagedsim.analysis.scene.values import Lane, Scene
from pagedsim.present.numbers import bytes_, count, per_cent, plain, significant

if TYPE_CHECKING:
    from rich.console import RenderableType


def summary(scene: Scene, path: str | None, size: int | None) -> RenderableType:
    """A row an allocator: steps, what happened, and the mean account over the stretch."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", overflow="fold", ratio=1)
    for name in ("steps", "waste %", "refused", "preempted", "hits"):
        table.add_column(name, justify="right", no_wrap=True)
    for lane in scene.lanes:
        table.add_row(Text(plain(lane.name, 60)), *_row(lane, scene.to_ns))
    begin, end = scene.from_ns / 1e9, scene.to_ns / 1e9
    said = f"{plain(scene.trace, 40)}: from {significant(begin)} to {significant(end)} s"
    if scene.cut:
        said += ", all that a page holds (--from, --seconds)"
    parts: list[RenderableType] = [Text(said), Text(""), table]
    if path is not None and size is not None:
        parts += [Text(""), Text(f"{plain(path, 60)}: {bytes_(size)}; open it in a browser")]
    return Group(*parts)


def _row(lane: Lane, end_ns: int) -> list[str]:
    kinds = [said.kind for frame in lane.frames for said in frame.said if not said.again]
    steps = sum(frame.step >= 0 for frame in lane.frames)
    waste = mean_waste(lane, end_ns)
    happened = [count(kinds.count(kind)) for kind in ("refused", "preempted", "hit")]
    return [count(steps), per_cent(waste), *happened]


def mean_waste(lane: Lane, end_ns: int) -> float | None:
    """Reserved, internal and external slots, a share of the pool, while steps run; None if none."""
    ends = [frame.start_ns for frame in lane.frames[1:]] + [end_ns]
    weighed = whole = 0
    for frame, end in zip(lane.frames, ends, strict=True):
        if frame.step >= 0:
            wasted = sum(
                frame.terms[TERMS.index(term)] for term in ("reserved", "internal", "external")
            )
            weighed += wasted * (end - frame.start_ns)
            whole += lane.capacity * (end - frame.start_ns)
    return weighed / whole if whole else None


__all__ = ["mean_waste", "summary"]
