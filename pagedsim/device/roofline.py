"""Step time from first principles: the larger of compute and memory traffic.

``ns = overhead + max(FLOPs / (peak · mfu), bytes / (bandwidth · mbu))``, for one rank:

- FLOPs = 2 · active parameters · tokens + 4 · heads · head_dim · layers · pairs, over tp. (q·k and
  a·v take 2 · head_dim each a pair and head.) MLA, run on its latents, takes
  2 · (2 · kv_rank + rope_dim) a pair, head and layer.
- bytes = weights of the rank, once + KV bytes of the rank · (context + tokens): all context is
  read, the step's tokens are written. Of routed experts, at most tokens · experts per token are
  read a layer. A step of no tokens does nothing but take the overhead.

Pipeline stages work one after another, so pp does not shorten a step. Communication between GPUs
is not modelled. FLOPs and bytes are exact integers; each quotient is one IEEE division by the same
double, rounded half to even to whole nanoseconds. An int64 array and Python's int become the same
double (both round half to even), so `ramp` equals `ns` bit for bit; beyond 63 bits the arrays hold
Python's integers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from mypy_extensions import mypyc_attr

from pagedsim.device.device import Device
from pagedsim.device.steptime import FEW, LONGEST_NS, Numbers, checked, exact, largest
from pagedsim.errors import SpecError
from pagedsim.protocols import Int64, Load

Float64: TypeAlias = npt.NDArray[np.float64]

_ONES: Final = 1.5 * 2**52  # doubles from 2^52 to 2^53 are the whole numbers
_EXACT: Final = 2.0**51


@mypyc_attr(allow_interpreted_subclasses=True)
class Roofline:
    """Step time of `device` at `mfu` of its peak and `mbu` of its bandwidth, plus an overhead.

    The defaults 0.5, 0.8 and 2 ms are assumptions. SpecError where a share is not in (0, 1].
    """

    def __init__(
        self, device: Device, *, mfu: float = 0.5, mbu: float = 0.8, overhead_ms: float = 2
    ) -> None:
        self._overhead = exact("overhead_ms", overhead_ms, 10**6, scale=1)
        model, tp = device.model, device.tp
        self._flops_per_token = 2 * device.active_params
        if model.mla is None:
            per_head = 4 * model.head_dim
        else:
            per_head = 2 * (2 * model.mla.kv_rank + model.mla.rope_dim)
        self._flops_per_pair = per_head * model.heads * model.layers
        kv = Fraction(model.kv_bytes_per_layer(device.kv_dtype, tp) * model.layers)
        # all bytes are counted in units of 1/_unit byte, so that 4-bit KV stays whole
        self._unit = kv.denominator
        self._kv = kv.numerator
        experts = model.experts
        self._experts = experts.count if experts else 0
        self._per_token = experts.per_token if experts else 0
        self._expert = -(-device.expert_bytes // tp) * self._unit
        self._weights = -(-device.weights_bytes // tp) * self._unit
        # a nanosecond's worth of each at the achieved rates
        self._peak_rate = device.gpu.flops * tp * _share("mfu", mfu) / 1e9
        self._byte_rate = device.gpu.bandwidth * self._unit * _share("mbu", mbu) / 1e9
        self.ridge = device.gpu.flops / device.gpu.bandwidth
        self._tp = tp

    def ns(self, load: Load) -> int:
        """Nanoseconds, at least 1."""
        _, _, tokens, pairs, context = map(int, load)
        return self._few(self._flops(tokens, pairs), 0, self._bytes(tokens, context), 0, 1)[0]

    def ramp(self, load: Load, steps: int) -> Int64:
        """int64[steps]: `ns` of each of the next `steps` decode steps."""
        if steps <= 0:
            return np.zeros(0, np.int64)
        sequences, _, tokens, pairs, context = map(int, load)
        work, more_work = self._flops(tokens, pairs), self._flops_per_pair * sequences
        moved, more_moved = self._bytes(tokens, context), self._kv * sequences * (tokens > 0)
        if steps <= FEW:
            return np.array(self._few(work, more_work, moved, more_moved, steps), np.int64)
        return self._times(_line(work, more_work, steps), _line(moved, more_moved, steps))

    def few(self, load: Load, steps: int) -> list[int]:
        """The same as a list, for a few steps of a load in Python's integers."""
        sequences, _, tokens, pairs, context = load
        work, more_work = self._flops(tokens, pairs), self._flops_per_pair * sequences
        moved, more_moved = self._bytes(tokens, context), self._kv * sequences * (tokens > 0)
        return self._few(work, more_work, moved, more_moved, steps)

    def many(self, loads: Int64) -> Int64:
        """int64[n]: `ns` of each of int64[n, 5] `loads`."""
        if not len(loads):
            return np.zeros(0, np.int64)
        _, _, tokens, pairs, context = largest(loads)
        read = self._weights + self._kv * (context + tokens)
        idle = self._experts * self._expert
        fits = max(self._flops(tokens, pairs), read, idle, tokens * self._per_token) < 1 << 63
        _, _, token, pair, ctx = loads.T if fits else loads.T.astype(object)
        size = self._weights + self._kv * (ctx + token)
        if self._experts:
            size = size - np.maximum(0, self._experts - token * self._per_token) * self._expert
        flops = self._flops_per_token * token + self._flops_per_pair * pair
        return self._times(flops, np.where(token > 0, size, 0))

    def flops(self, load: Load) -> int:
        """Floating-point operations of a step, over all ranks."""
        return self._flops(int(load.tokens), int(load.pairs))

    def bytes(self, load: Load) -> Fraction:
        """Bytes that a step moves on one tensor-parallel rank, through all stages."""
        return Fraction(self._bytes(int(load.tokens), int(load.context)), self._unit)

    def bound(self, load: Load) -> str:
        """'compute' or 'bandwidth': which of the two takes longer (equal: 'compute')."""
        flops = self._flops(int(load.tokens), int(load.pairs)) / self._peak_rate
        size = self._bytes(int(load.tokens), int(load.context)) / self._byte_rate
        return "compute" if flops >= size else "bandwidth"

    def intensity(self, load: Load) -> float:
        """FLOPs a byte, to hold against `ridge`, the GPU's peak over its bandwidth; 0 if idle."""
        size = self._bytes(int(load.tokens), int(load.context)) * self._tp
        return self.flops(load) * self._unit / size if size else 0.0

    def bounds(self, tokens: Int64, pairs: Int64, context: Int64) -> npt.NDArray[np.bool_]:
        """`bound` of many loads: True where compute takes as long as memory or longer."""
        flops, size = self._many(tokens, pairs, context)
        above: npt.NDArray[np.bool_] = flops / self._peak_rate >= size / self._byte_rate
        return above

    def intensities(self, tokens: Int64, pairs: Int64, context: Int64) -> Float64:
        """`intensity` of many loads."""
        flops, size = self._many(tokens, pairs, context)
        idle = size == 0
        shares: Float64 = flops / np.where(idle, 1.0, size) * (self._unit / self._tp)
        return np.where(idle, 0.0, shares)

    def _few(self, flops: int, more: int, size: int, more_size: int, steps: int) -> list[int]:
        """ns of steps of that work and size, each with so much more than the one before it."""
        found: list[int] = []
        peak, rate, overhead = self._peak_rate, self._byte_rate, self._overhead
        for _ in range(steps):
            compute, memory = flops / peak, size / rate
            ns = compute if compute > memory else memory
            # added to a number whose neighbours are 1 away, a smaller one is rounded half to even
            found.append(overhead + (int(ns + _ONES - _ONES) if ns < _EXACT else round(ns)))
            flops += more
            size += more_size
        if found and (min(found) < 1 or found[-1] > LONGEST_NS):  # the last takes longest
            found = [checked(ns) for ns in found]
        return found

    def _times(self, flops: Numbers, size: Numbers) -> Int64:
        """ns of a step of each work and size, of which there must be one."""
        compute = (flops / self._peak_rate).astype(np.float64)
        memory = (size / self._byte_rate).astype(np.float64)
        ns = np.rint(np.maximum(compute, memory))
        checked(self._overhead + int(ns.max()))
        whole: Int64 = ns.astype(np.int64) + np.int64(self._overhead)
        return np.maximum(whole, 1)

    def _flops(self, tokens: int, pairs: int) -> int:
        return self._flops_per_token * tokens + self._flops_per_pair * pairs

    def _bytes(self, tokens: int, context: int) -> int:
        """In units of 1/_unit byte."""
        if tokens == 0:
            return 0
        idle = max(0, self._experts - tokens * self._per_token)
        return self._weights - idle * self._expert + self._kv * (context + tokens)

    def _many(self, tokens: Int64, pairs: Int64, context: Int64) -> tuple[Float64, Float64]:
        """FLOPs and bytes of many loads, as doubles (to 15 digits; for reports)."""
        t, p, c = (np.asarray(x, np.float64) for x in (tokens, pairs, context))
        flops = self._flops_per_token * t + self._flops_per_pair * p
        idle = np.maximum(0.0, self._experts - t * self._per_token)
        size = self._weights - idle * self._expert + self._kv * (c + t)
        return flops, np.where(t == 0, 0.0, size)


def _line(start: int, slope: int, steps: int) -> Numbers:
    """`start` + j · `slope`: int64 where the last one fits, else an array of Python's integers."""
    kind: Any = np.int64 if start + (steps - 1) * slope < 1 << 63 else object
    numbers: Numbers = np.arange(steps).astype(kind) * slope + start
    return numbers


def _share(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise SpecError(f"{name} is {value!r}, must be in (0, 1]")
    return float(value)


__all__ = ["Roofline"]
