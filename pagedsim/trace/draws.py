"""Random numbers whose streams stay the same: uniforms of PCG64, turned by our own formulas.

NumPy promises that PCG64's bits never change, but not the streams of ``Generator``'s other
methods. So `Generator.random` (53 bits of each draw) is the only method used, and the exception
is the gamma distribution, which has no closed inverse: ``Generator.standard_gamma``.
Results may still differ in the last bit between math libraries; whole numbers come out the same
but for a chance of about 1e-12 a draw.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pagedsim.errors import SpecError

Float64: TypeAlias = npt.NDArray[np.float64]


def stream(seed: int, purpose: int = 0) -> np.random.Generator:
    """A generator of its own for each purpose, so that one does not shift another."""
    if seed < 0:
        raise SpecError(f"seed is {seed}, must be >= 0")
    return np.random.Generator(np.random.PCG64([seed, purpose]))


def uniforms(rng: np.random.Generator, count: int) -> Float64:
    """In the open interval (0, 1): 0 is moved to 2**-54."""
    return np.maximum(rng.random(count), 2.0**-54)


def exponentials(rng: np.random.Generator, count: int) -> Float64:
    """Of mean 1, by inversion."""
    return -np.log1p(-rng.random(count))


def normals(rng: np.random.Generator, count: int) -> Float64:
    """Standard normal, by inversion."""
    return quantile(uniforms(rng, count))


def quantile(p: Float64) -> Float64:
    """The standard normal's inverse: Wichura's AS 241 (1988), good to 1e-16 relative."""
    q = p - 0.5
    out = np.empty_like(p)
    middle = np.abs(q) <= 0.425
    r = 0.180625 - q[middle] ** 2
    out[middle] = q[middle] * _ratio(r, _A, _B)
    tail = ~middle
    r = np.sqrt(-np.log(np.minimum(p[tail], 1 - p[tail])))
    near = _ratio(r - 1.6, _C, _D)
    far = _ratio(r - 5.0, _E, _F)
    out[tail] = np.copysign(np.where(r <= 5.0, near, far), q[tail])
    return out


def _ratio(x: Float64, above: tuple[float, ...], below: tuple[float, ...]) -> Float64:
    num = np.full_like(x, above[-1])
    den = np.full_like(x, below[-1])
    for a, b in zip(above[-2::-1], below[-2::-1], strict=True):
        num = num * x + a
        den = den * x + b
    return num / den


_A = (
    3.3871328727963666080e0,
    1.3314166789178437745e2,
    1.9715909503065514427e3,
    1.3731693765509461125e4,
    4.5921953931549871457e4,
    6.7265770927008700853e4,
    3.3430575583588128105e4,
    2.5090809287301226727e3,
)
_B = (
    1.0,
    4.2313330701600911252e1,
    6.8718700749205790830e2,
    5.3941960214247511077e3,
    2.1213794301586595867e4,
    3.9307895800092710610e4,
    2.8729085735721942674e4,
    5.2264952788528545610e3,
)
_C = (
    1.42343711074968357734e0,
    4.63033784615654529590e0,
    5.76949722146069140550e0,
    3.64784832476320460504e0,
    1.27045825245236838258e0,
    2.41780725177450611770e-1,
    2.27238449892691845833e-2,
    7.74545014278341407640e-4,
)
_D = (
    1.0,
    2.05319162663775882187e0,
    1.67638483018380384940e0,
    6.89767334985100004550e-1,
    1.48103976427480074590e-1,
    1.51986665636164571966e-2,
    5.47593808499534494600e-4,
    1.05075007164441684324e-9,
)
_E = (
    6.65790464350110377720e0,
    5.46378491116411436990e0,
    1.78482653991729133580e0,
    2.96560571828504891230e-1,
    2.65321895265761230930e-2,
    1.24266094738807843860e-3,
    2.71155556874348757815e-5,
    2.01033439929228813265e-7,
)
_F = (
    1.0,
    5.99832206555887937690e-1,
    1.36929880922735805310e-1,
    1.48753612908506148525e-2,
    7.86869131145613259100e-4,
    1.84631831751005468180e-5,
    1.42151175831644588870e-7,
    2.04426310338993978564e-15,
)


__all__ = ["Float64", "exponentials", "normals", "quantile", "stream", "uniforms"]
