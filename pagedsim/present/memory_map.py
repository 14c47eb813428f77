"""The memory map: a page on which a pool plays, slot by slot or block by block.

A scene (`pagedsim.analysis.scene`) goes into the page as it is; the page's script reads its frames
back into pictures. As the report, the page fetches nothing and allows no script but its own.
"""

from __future__ import annotations

import json
import os
from collections import Counter as Tally
from collections.abc import Callable
from typing import Any

import msgspec
from markupsafe import Markup

from pagedsim import __version__
from pagedsim.analysis.results import TERMS
from pagedsim.analysis.scene.teaching import ABOUTS
from pagedsim.analysis.scene.values import Scene
from pagedsim.files import write_whole
from pagedsim.present import formats
from pagedsim.present.page import environment, inert, policy, source
from pagedsim.present.palette import SEQUENCE_COLORS

SQUARES = 4_000  # of a lane: more are too small to see
FEW = 1_024  # up to so many stand in rows of 32, more in rows of 64
SCRIPTS = ("map_scene.js", "map_draw.js", "map_strip.js", "map_sequence.js", "map.js")


def page(scene: Scene, *, teaching: bool = False, command: str = "") -> str:
    """The whole file as text."""
    given = parts(scene)
    return (
        environment()
        .get_template("map.html")
        .render(
            **given,
            abouts=ABOUTS if teaching else {},
            level=2,
            style=Markup(source("report.css") + source("map.css")),
            policy=policy([str(script) for script in given["map_scripts"]]),
            teaching=teaching,
            command=command,
            version=__version__,
        )
    )


def save(
    scene: Scene, path: str | os.PathLike[str], *, teaching: bool = False, command: str = ""
) -> int:
    """Write the page whole or not at all; its bytes."""
    formats.suffix(path, formats.PAGES)
    data = page(scene, teaching=teaching, command=command).encode()
    with write_whole(path) as file:
        file.write(data)
    return len(data)


def section(scene: Scene | None, shows: str) -> dict[str, Any]:
    """What `page.page` wants of a map; without a scene, `shows` says why there is none."""
    return {"shows": shows, "level": 3, "abouts": {}, **(parts(scene) if scene else {})}


def parts(scene: Scene) -> dict[str, Any]:
    """What the map's part of a page is made from."""
    square, columns = grid(scene)
    return {
        "scene": scene,
        "square": square,
        "map_terms": TERMS,
        "map_data": inert(
            json.dumps(
                {
                    "scene": msgspec.to_builtins(scene),
                    "square": square,
                    "columns": columns,
                    "colors": SEQUENCE_COLORS,
                    "color_of": colors(scene, len(SEQUENCE_COLORS)),
                    "terms": TERMS,
                },
                separators=(",", ":"),
                allow_nan=False,
            )
        ),
        "map_scripts": [Markup(source(name)) for name in SCRIPTS],
    }


def colors(scene: Scene, count: int) -> dict[int, int]:
    """A colour for every request, 0 to `count` - 1, so that few who hold slots together share one.

    In the order in which they first hold any, each gets the colour that the fewest have of those
    that it meets in any lane; of equals the one that was given out longest ago.
    """
    meets: dict[int, set[int]] = {}
    for lane in scene.lanes:
        held: set[int] = set()  # holders
        for frame in lane.frames:
            held.difference_update(frame.gone)
            for change in frame.changes:
                request = lane.holders[change.holder].request
                held.add(change.holder)
                if change.keep == 0:
                    others = {lane.holders[index].request for index in held} - {request}
                    meets.setdefault(request, set()).update(others)
                    for other in others:
                        meets[other].add(request)
    found: dict[int, int] = {}
    given = list(range(count))  # longest ago first
    for request in sorted(meets, key=_begins(scene)):
        used = Tally(found[other] for other in meets[request] if other in found)
        color = min(given, key=lambda one, used=used: used[one])  # type: ignore[misc]
        found[request] = color
        given.remove(color)
        given.append(color)
    return found


def _begins(scene: Scene) -> Callable[[int], tuple[int, int]]:
    """When a request first holds slots, then its row."""
    first: dict[int, int] = {}
    for lane in scene.lanes:
        for frame in lane.frames:
            for change in frame.changes:
                request = lane.holders[change.holder].request
                first[request] = min(first.get(request, frame.start_ns), frame.start_ns)
    return lambda request: (first[request], request)


def grid(scene: Scene) -> tuple[int, int]:
    """Slots of a square, whole blocks of them where more than one, and squares of a row."""
    most = max(lane.capacity for lane in scene.lanes)
    if most <= SQUARES:
        return 1, 32 if most <= FEW else 64
    block = max(lane.block for lane in scene.lanes)
    return block * -(-most // (block * SQUARES)), 64


__all__ = ["FEW", "SQUARES", "colors", "grid", "page", "parts", "save", "section"]
