"""A language model small enough to look into: two layers of attention, with and without a cache.

A *position* is a place in the sentence, a *pass* one run of the model over the first t words. One
function, `forward`, does both: it computes the positions that its cache lacks, all of them if there
is none.

Law: equal to the bit. Every sum is taken one term after another, in order of positions or of
numbers, with nothing but elementwise operations, so a row comes out the same whether it is computed
alone or among others. Why not `@`: a library for matrices may add in another order for another
shape, and then the last bits differ although nothing else does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

LAYERS, HEADS, HEAD_DIM = 2, 2, 2
WIDTH = HEADS * HEAD_DIM  # numbers of a position between layers, and in each of its K and V
WORDS = 8  # of the sentence
SEED = 7

_exp = np.vectorize(math.exp, otypes=[np.float64])  # one at a time, so no row depends on others


class Weights(NamedTuple):
    """Random, so the model knows no language: what is shown holds for any weights.

    `words` and `places` float64[WORDS + 1, WIDTH], the last word being one that no sentence has;
    the matrices float64[LAYERS, WIDTH, WIDTH].
    """

    words: Floats
    places: Floats
    query: Floats
    key: Floats
    value: Floats
    mix: Floats


class Output(NamedTuple):
    """What a pass computed: K and V float64[LAYERS, new positions, WIDTH], `last` float64[WIDTH].

    `last` is what the model hands on at the last position, from which the next word is chosen.
    """

    keys: Floats
    values: Floats
    last: Floats


@dataclass(slots=True)
class Cache:
    """K and V of the positions computed so far, float64[LAYERS, positions, WIDTH]."""

    keys: Floats = field(default_factory=lambda: np.zeros((LAYERS, 0, WIDTH)))
    values: Floats = field(default_factory=lambda: np.zeros((LAYERS, 0, WIDTH)))

    def __len__(self) -> int:
        """Positions."""
        return int(self.keys.shape[1])


def weights(seed: int = SEED) -> Weights:
    """The same for the same seed."""
    draw = np.random.default_rng(seed).normal
    rows, matrices = (WORDS + 1, WIDTH), (LAYERS, WIDTH, WIDTH)
    spread = 1 / math.sqrt(WIDTH)
    query, key, value, mix = (draw(0.0, spread, matrices) for _ in range(4))
    return Weights(draw(0.0, 1.0, rows), draw(0.0, 0.5, rows), query, key, value, mix)


def forward(model: Weights, words: list[int], cache: Cache | None = None) -> Output:
    """One pass over `words`; with a `cache`, over those that it lacks, which are put into it.

    Each position sees itself and those before it, never a later one.
    """
    known = Cache() if cache is None else cache
    first = len(known)
    x = model.words[words[first:]] + model.places[first : len(words)]
    new_keys, new_values, all_keys, all_values = [], [], [], []
    for layer in range(LAYERS):
        query = product(x, model.query[layer])
        new_keys.append(product(x, model.key[layer]))
        new_values.append(product(x, model.value[layer]))
        all_keys.append(np.concatenate((known.keys[layer], new_keys[-1])))
        all_values.append(np.concatenate((known.values[layer], new_values[-1])))
        seen = attend(query, all_keys[-1], all_values[-1], first)
        x = x + product(seen, model.mix[layer])
    if cache is not None:
        cache.keys, cache.values = np.stack(all_keys), np.stack(all_values)
    return Output(np.stack(new_keys), np.stack(new_values), x[-1])


def attend(query: Floats, keys: Floats, values: Floats, first: int) -> Floats:
    """Causal attention of the positions from `first` on over all; float64[new positions, WIDTH]."""
    q, k, v = (_in_heads(each) for each in (query, keys, values))
    scores = np.zeros((HEADS, len(query), len(keys)))
    for at in range(HEAD_DIM):
        scores += q[:, :, None, at] * k[:, None, :, at]
    scores /= math.sqrt(HEAD_DIM)
    hidden = np.arange(len(keys)) > first + np.arange(len(query))[:, None]
    scores[:, hidden] = -np.inf
    share = _exp(scores - scores.max(axis=2, keepdims=True))  # of a hidden one it is 0
    total, seen = np.zeros(share.shape[:2]), np.zeros(q.shape)
    for at in range(len(keys)):
        total += share[:, :, at]
        seen += share[:, :, at, None] * v[:, None, at]
    return (seen / total[:, :, None]).swapaxes(0, 1).reshape(len(query), WIDTH)


def product(rows: Floats, matrix: Floats) -> Floats:
    """rows · matrix, one term after another."""
    found = np.zeros((len(rows), matrix.shape[1]))
    for at, line in enumerate(matrix):
        found += rows[:, at, None] * line
    return found


def _in_heads(rows: Floats) -> Floats:
    """float64[HEADS, positions, HEAD_DIM]."""
    return rows.reshape(len(rows), HEADS, HEAD_DIM).swapaxes(0, 1)


@dataclass(frozen=True, slots=True)
class PassNumbers:
    """One pass both ways. Lists are [layer][position][number]; `with` a cache, new ones only."""

    words: int
    without_keys: list[Any]
    without_values: list[Any]
    without_last: list[float]
    cached_keys: list[Any]
    cached_values: list[Any]
    cached_last: list[float]


@dataclass(frozen=True, slots=True)
class Swapped:
    """K and V of the whole sentence with the word at `position` (0 first) exchanged."""

    position: int
    keys: list[Any]
    values: list[Any]


@dataclass(frozen=True, slots=True)
class Attention:
    """All that the page shows of the model."""

    layers: int
    heads: int
    head_dim: int
    passes: list[PassNumbers]
    swapped: list[Swapped]


def attention(seed: int = SEED) -> Attention:
    """The sentence pass by pass, and with each of its words exchanged once."""
    model, sentence, cache = weights(seed), list(range(WORDS)), Cache()
    passes = []
    for count in range(1, WORDS + 1):
        whole, more = forward(model, sentence[:count]), forward(model, sentence[:count], cache)
        parts = (*whole, *more)
        passes.append(PassNumbers(count, *(part.tolist() for part in parts)))
    swapped = []
    for at in range(WORDS):
        other = forward(model, [*sentence[:at], WORDS, *sentence[at + 1 :]])
        swapped.append(Swapped(at, other.keys.tolist(), other.values.tolist()))
    return Attention(LAYERS, HEADS, HEAD_DIM, passes, swapped)


__all__ = [
    "WIDTH",
    "WORDS",
    "Attention",
    "Cache",
    "Output",
    "PassNumbers",
    "Swapped",
    "Weights",
    "attend",
    "attention",
    "forward",
    "product",
    "weights",
]
