"""A model on a GPU: shapes, KV bytes per token, pool size, work counts and step times.

shape, hfconfig, tables   what a model and a GPU are, from a config.json or the built-in tables
params, pool, device      parameters, the estimate of the pool, and the two put together
enginelog                 what a real engine's log says about its pool
work                      what generation costs with and without a cache
roofline, steptime        how long a step takes, in integer nanoseconds
"""

from __future__ import annotations

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
