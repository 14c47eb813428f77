"""pagedsim: how a language-model server's KV cache is allocated, simulated exactly.

    import pagedsim
    reports = pagedsim.compare("chat")            # a bundled trace; or a path
    reports[0].run.memory.waste                   # shares of capacity
    reports[0].windows_frame()                    # polars

Names are imported when they are first used, so that importing the package costs little.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pagedsim.alloc.contiguous import Contiguous
    from pagedsim.alloc.paged import Paged
    from pagedsim.alloc.slots import Slots
    from pagedsim.analysis.report import Report
    from pagedsim.analysis.simulate import compare, simulate
    from pagedsim.analysis.verify import verify
    from pagedsim.device.device import Device, make_device
    from pagedsim.device.roofline import Roofline
    from pagedsim.device.steptime import Affine, Constant
    from pagedsim.engine.schedulers import Orca, Static, Vllm
    from pagedsim.errors import PagedsimError
    from pagedsim.trace import Trace, load

_PLACES = {
    "Affine": "device.steptime",
    "Constant": "device.steptime",
    "Contiguous": "alloc.contiguous",
    "Device": "device.device",
    "Orca": "engine.schedulers",
    "Paged": "alloc.paged",
    "PagedsimError": "errors",
    "Report": "analysis.report",
    "Roofline": "device.roofline",
    "Slots": "alloc.slots",
    "Static": "engine.schedulers",
    "Trace": "trace",
    "Vllm": "engine.schedulers",
    "compare": "analysis.simulate",
    "load": "trace",
    "make_device": "device.device",
    "simulate": "analysis.simulate",
    "verify": "analysis.verify",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'pagedsim' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"pagedsim.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Affine",
    "Constant",
    "Contiguous",
    "Device",
    "Orca",
    "Paged",
    "PagedsimError",
    "Report",
    "Roofline",
    "Slots",
    "Static",
    "Trace",
    "Vllm",
    "compare",
    "load",
    "make_device",
    "simulate",
    "verify",
]
