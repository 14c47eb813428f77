"""Step times that need no device: affine in the load, or constant.

Coefficients are integers of femtoseconds (10⁻⁶ ns), so a step time is an integer sum rounded half
to even to nanoseconds, once: no float takes part, and `ramp` equals `ns` bit for bit. Where a sum
passes 63 bits, the same operations run on Python's integers.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from mypy_extensions import mypyc_attr

from pagedsim.errors import SpecError
from pagedsim.protocols import Int64, Load

Numbers: TypeAlias = npt.NDArray[Any]  # int64, or Python's integers where those do not fit

FS: Final = 1_000_000  # femtoseconds a nanosecond
LONGEST_NS: Final = (1 << 63) - 1
FEW: Final = 8  # steps that a loop prices faster than NumPy does


def exact(name: str, value: float, unit_ns: int | Fraction, scale: int = FS) -> int:
    """`value` · `unit_ns` nanoseconds in units of 1/`scale` ns, rounded half to even.

    A float means the decimal that it prints as. SpecError unless it is a finite number >= 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SpecError(f"{name} is {value!r}, must be a number >= 0")
    if not 0 <= value < float("inf"):
        raise SpecError(f"{name} is {value}, must be a finite number >= 0")
    return round(Fraction(str(value)) * unit_ns * scale)


def half_even(value: int, divisor: int) -> int:
    """`value` / `divisor` rounded half to even, in integers."""
    quotient, rest = divmod(value, divisor)
    twice = 2 * rest
    return quotient + (twice > divisor or (twice == divisor and quotient & 1 == 1))


def checked(ns: int) -> int:
    """At least 1; SpecError beyond the clock's 63 bits."""
    if ns > LONGEST_NS:
        said = str(ns) if ns < 10**24 else f"{Decimal(ns):.3g}"
        raise SpecError(f"a step of {said} ns, must be <= {LONGEST_NS} (the clock's 63 bits)")
    return max(1, ns)


def largest(loads: Int64) -> list[int]:
    """The largest of each column of int64[n, 5] `loads`, 0 where there is none."""
    most: list[int] = loads.max(axis=0, initial=0).tolist()
    return most


def line(start: int, slope: int, divisor: int, steps: int) -> Int64:
    """int64[steps]: ``checked(half_even(start + j · slope, divisor))`` for j = 0 … steps - 1.

    `start` and `slope` must be >= 0. O(steps), in NumPy unless a value passes 62 bits.
    """
    if steps <= 0:
        return np.zeros(0, np.int64)
    slope = slope if steps > 1 else 0  # it may be too large for int64, and is not needed
    last = start + (steps - 1) * slope
    checked(half_even(last, divisor))
    if steps <= FEW:
        return np.array(
            [checked(half_even(start + j * slope, divisor)) for j in range(steps)], np.int64
        )
    kind: Any = np.int64 if max(last, 2 * divisor) < 1 << 62 else object
    return _quotients(np.arange(steps).astype(kind) * slope + start, divisor)


def _quotients(values: Numbers, divisor: int) -> Int64:
    """``max(1, half_even(value, divisor))`` of each, in the kind of integers that `values` are."""
    quotient = values // divisor
    twice = 2 * (values - quotient * divisor)
    up = (twice > divisor) | ((twice == divisor) & (quotient % 2 == 1))
    ns: Int64 = (quotient + up).astype(np.int64)
    return np.maximum(ns, 1)


@mypyc_attr(allow_interpreted_subclasses=True)
class Affine:
    """``base + a · sequences + b · prefill tokens + c · context``.

    Prefill tokens are those beyond the one of each decoding sequence:
    ``tokens - (sequences - prefills)``. OPT-13B on an A100-40GB is
    ``Affine(base_ms=26.24, per_seq_ms=0.419)`` (a fit of Fig 1 in the PagedAttention paper).
    """

    def __init__(
        self,
        *,
        base_ms: float = 0,
        per_seq_ms: float = 0,
        per_prefill_token_us: float = 0,
        per_context_token_ns: float = 0,
    ) -> None:
        self._base = exact("base_ms", base_ms, 10**6)
        self._seq = exact("per_seq_ms", per_seq_ms, 10**6)
        self._prefill = exact("per_prefill_token_us", per_prefill_token_us, 10**3)
        self._context = exact("per_context_token_ns", per_context_token_ns, 1)
        if not (self._base or self._seq or self._prefill or self._context):
            raise SpecError(
                "affine needs a coefficient > 0: base_ms, per_seq_ms, per_prefill_token_us or "
                "per_context_token_ns"
            )

    def ns(self, load: Load) -> int:
        """Nanoseconds, at least 1."""
        return checked(half_even(self._fs(load), FS))

    def ramp(self, load: Load, steps: int) -> Int64:
        """int64[steps]: `ns` of each of the next `steps` decode steps."""
        return line(self._fs(load), self._context * int(load.sequences), FS, steps)

    def few(self, load: Load, steps: int) -> list[int]:
        """The same as a list, for a few steps."""
        start, slope = self._fs(load), self._context * int(load.sequences)
        return [checked(half_even(start + j * slope, FS)) for j in range(steps)]

    def many(self, loads: Int64) -> Int64:
        """int64[n]: `ns` of each of int64[n, 5] `loads`."""
        weights = (self._seq - self._prefill, self._prefill, self._prefill, 0, self._context)
        size = sum(abs(w) * most for w, most in zip(weights, largest(loads), strict=True))
        fits = max(self._base + size, 2 * FS) < 1 << 62
        columns = loads.T if fits else loads.T.astype(object)
        values = self._base + sum(w * c for w, c in zip(weights, columns, strict=True) if w)
        if not fits and len(loads):
            checked(half_even(int(np.max(values)), FS))
        return _quotients(np.broadcast_to(values, len(loads)), FS)

    def _fs(self, load: Load) -> int:
        sequences, prefills, tokens, _, context = map(int, load)
        prefill = tokens - (sequences - prefills)
        return (
            self._base + self._seq * sequences + self._prefill * prefill + self._context * context
        )


@mypyc_attr(allow_interpreted_subclasses=True)
class Constant:
    """Every step takes `ms`."""

    def __init__(self, *, ms: float) -> None:
        self._ns = checked(exact("ms", ms, 10**6, scale=1))
        if ms <= 0:
            raise SpecError(f"ms is {ms}, must be > 0")

    def ns(self, load: Load) -> int:
        """Nanoseconds, at least 1."""
        return self._ns

    def ramp(self, load: Load, steps: int) -> Int64:
        """int64[steps], all alike."""
        return np.full(max(0, steps), self._ns, np.int64)

    def few(self, load: Load, steps: int) -> list[int]:
        """The same as a list."""
        return [self._ns] * steps

    def many(self, loads: Int64) -> Int64:
        """int64[n], all alike."""
        return np.full(len(loads), self._ns, np.int64)


__all__ = ["Affine", "Constant"]
