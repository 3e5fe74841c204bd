"""The sampling fields, the same on every generating route (wire contract 3.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from headrace.http.wire.fields import (
    Fields,
    as_boolean,
    as_integer,
    as_number,
    as_object,
    wrong_value,
)
from headrace.runtime.contracts import Sampling

Reader: TypeAlias = Callable[[Any, str], Any]

MOST_COUNT = 2**31 - 1


def _number(least: float | None, most: float, *, above: float | None = None) -> Reader:
    return lambda value, path: as_number(value, path, least, most, above=above)


def _count(value: Any, path: str) -> int:
    """Beyond any context all counts mean the same; the bound keeps them inside an int32."""
    return min(as_integer(value, path, least=0), MOST_COUNT)


def _seed(value: Any, path: str) -> int:
    return as_integer(value, path, -(2**63), 2**64 - 1)


def _top_k(value: Any, path: str) -> int:
    """-1 is another way to write off."""
    return min(max(0, as_integer(value, path, least=-1)), MOST_COUNT)


def _logit_bias(value: Any, path: str) -> tuple[tuple[int, float], ...]:
    """Pairs of token id and bias; whether an id exists is for the model to say."""
    pairs: dict[int, float] = {}
    for key, bias in as_object(value, path).items():
        if not (key.isascii() and key.isdecimal() and len(key) <= 10):
            raise wrong_value(path, "must have decimal token ids as its keys")
        pairs[int(key)] = as_number(bias, f"{path}.{key}", -100, 100)
    return tuple(pairs.items())


READERS: dict[str, Reader] = {
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "top_k": _top_k,
    "min_p": _number(0, 1),
    "xtc_probability": _number(0, 1),
    "xtc_threshold": _number(0, 0.5),
    "repetition_penalty": _number(None, 10, above=0),
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "repetition_context_size": _count,
    "presence_context_size": _count,
    "frequency_context_size": _count,
    "logit_bias": _logit_bias,
    "seed": _seed,
    "ignore_eos": as_boolean,
    "min_tokens": _count,
}


def read_sampling(fields: Fields, *, fresh_seed: int) -> tuple[Sampling, tuple[str, ...]]:
    """How to draw, and the names of the fields that the client itself set.

    A field outside that list may still be given a value by the model's own defaults.
    """
    given = {
        name: reader(fields.value(name), fields.path(name))
        for name, reader in READERS.items()
        if fields.value(name) is not None
    }
    return Sampling(**{"seed": fresh_seed} | given), tuple(given)
