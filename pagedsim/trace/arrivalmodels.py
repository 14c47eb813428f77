"""Models of arrivals that a recipe can name; `pagedsim.trace.arrivals` draws them."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
import numpy as np

from pagedsim.protocols import Int64
from pagedsim.trace import arrivals


class _Arrivals(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Each has ``times(count, seed)``: arrivals in ns, and ``words(seed)``: the load's name."""


class Poisson(_Arrivals, frozen=True, tag="poisson"):
    """Independent exponential gaps, `rate` a second."""

    rate: float

    def times(self, count: int, seed: int) -> Int64:
        return arrivals.poisson_ns(count, self.rate, seed)

    def words(self, seed: int) -> str:
        return f"Poisson {self.rate:g}/s, seed {seed}"


class Gamma(_Arrivals, frozen=True, tag="gamma"):
    """Gamma gaps; `cv` above 1 is burstier than Poisson."""

    rate: float
    cv: float

    def times(self, count: int, seed: int) -> Int64:
        return arrivals.gamma_ns(count, self.rate, self.cv, seed)

    def words(self, seed: int) -> str:
        return f"gamma {self.rate:g}/s, cv {self.cv:g}, seed {seed}"


class Diurnal(_Arrivals, frozen=True, tag="diurnal"):
    """Poisson with a rate that swings by ± `swing` over `period_s`."""

    rate: float
    swing: float
    period_s: float = 86400.0

    def times(self, count: int, seed: int) -> Int64:
        return arrivals.diurnal_ns(count, self.rate, self.swing, self.period_s, seed)

    def words(self, seed: int) -> str:
        return f"diurnal {self.rate:g}/s ± {self.swing:.0%} in {self.period_s:g} s, seed {seed}"


class Profile(_Arrivals, frozen=True, tag="profile"):
    """Gamma gaps under a rate that is ``rates[k]`` a second in the k-th `window_s`, then again."""

    window_s: float
    rates: list[float]
    cv: float = 1.0

    @property
    def rate(self) -> float:
        """The mean of all windows."""
        return sum(self.rates) / max(1, len(self.rates))

    def times(self, count: int, seed: int) -> Int64:
        return arrivals.profile_ns(count, self.rates, self.window_s, self.cv, seed)

    def words(self, seed: int) -> str:
        shape = f"{len(self.rates)} windows of {self.window_s:g} s, cv {self.cv:g}"
        return f"{self.rate:.3g}/s in {shape}, seed {seed}"


class Saturate(_Arrivals, frozen=True, tag="saturate"):
    """All at time 0."""

    rate: float = float("inf")

    def times(self, count: int, seed: int) -> Int64:
        return np.zeros(count, np.int64)

    def words(self, seed: int) -> str:
        return "saturated: all at time 0"


ArrivalModel: TypeAlias = Poisson | Gamma | Diurnal | Profile | Saturate

__all__ = ["ArrivalModel", "Diurnal", "Gamma", "Poisson", "Profile", "Saturate"]
