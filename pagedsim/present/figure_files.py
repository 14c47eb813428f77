"""Writing a figure: the same figure, the same bytes."""

from __future__ import annotations

import io
import os
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pagedsim.files import write_whole
from pagedsim.present import formats


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write `figure` whole or not at all, as its suffix says: the same figure, the same bytes."""
    suffix = formats.suffix(path, formats.FIGURES)
    nothing: dict[str, Any] = {
        ".svg": {"Date": None},
        ".pdf": {"CreationDate": None},
        ".png": {"Software": None},
    }
    _settled(figure)
    drawn = io.BytesIO()
    # Texts stay texts in SVG and PDF; the salt makes SVG's ids the same every time.
    with mpl.rc_context({"svg.hashsalt": "pagedsim", "svg.fonttype": "none", "pdf.fonttype": 42}):
        figure.savefig(drawn, format=suffix[1:], dpi=160, metadata=nothing[suffix])
    with write_whole(path) as file:
        file.write(drawn.getvalue())


def _settled(figure: Figure) -> None:
    """Lay out once and for all; the solver's last digits differ from time to time, so they go."""
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    for part in figure.subfigs:
        part.bbox_relative.set_points(part.bbox_relative.get_points().round(6))
    for axes in figure.findobj(Axes):
        left, low, width, height = (round(float(at), 6) for at in axes.get_position().bounds)
        axes.set_position((left, low, width, height))


__all__ = ["save"]
