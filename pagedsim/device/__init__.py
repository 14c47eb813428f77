"""A model on a GPU: shapes, KV bytes per token, pool size, work counts and step times.

shape, hfconfig, tables   what a model and a GPU are, from a config.json or the built-in tables
params, pool, device      parameters, the estimate of the pool, and the two put together
enginelog                 what a real engine's log says about its pool
work                      what generation costs with and without a cache
roofline, steptime        how long a step takes, in integer nanoseconds

Names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagedsim.device.device import Device, make_device
    from pagedsim.device.enginelog import EngineLog, parse_engine_log, read_engine_log
    from pagedsim.device.gpu import Gpu
    from pagedsim.device.hfconfig import read_config
    from pagedsim.device.pool import Pool, activation_peak, estimate_pool
    from pagedsim.device.roofline import Roofline
    from pagedsim.device.shape import Experts, Mla, Model
    from pagedsim.device.steptable import Table, read_table
    from pagedsim.device.steptime import Affine, Constant
    from pagedsim.device.tables import find_gpu, find_model, gpu_names, model_names

_PLACES = {
    "Affine": "steptime",
    "Constant": "steptime",
    "Device": "device",
    "EngineLog": "enginelog",
    "Experts": "shape",
    "Gpu": "gpu",
    "Mla": "shape",
    "Model": "shape",
    "Pool": "pool",
    "Roofline": "roofline",
    "Table": "steptable",
    "activation_peak": "pool",
    "estimate_pool": "pool",
    "find_gpu": "tables",
    "find_model": "tables",
    "gpu_names": "tables",
    "make_device": "device",
    "model_names": "tables",
    "parse_engine_log": "enginelog",
    "read_config": "hfconfig",
    "read_engine_log": "enginelog",
    "read_table": "steptable",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'pagedsim.device' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"pagedsim.device.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Affine",
    "Constant",
    "Device",
    "EngineLog",
    "Experts",
    "Gpu",
    "Mla",
    "Model",
    "Pool",
    "Roofline",
    "Table",
    "activation_peak",
    "estimate_pool",
    "find_gpu",
    "find_model",
    "gpu_names",
    "make_device",
    "model_names",
    "parse_engine_log",
    "read_config",
    "read_engine_log",
    "read_table",
]
