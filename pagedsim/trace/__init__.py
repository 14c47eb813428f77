"""Request traces: readers for public formats, generators, arrivals and statistics.

`load` reads any known format into a `Trace`; everything else is in the modules of this room.
"""

from __future__ import annotations

from pagedsim.trace.reading import load
from pagedsim.trace.trace import Trace

__all__ = ["Trace", "load"]
