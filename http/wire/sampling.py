"""The sampling fields, the same on every generating route (wire contract 3.2)."""

from __future__ import annotations

from typing import Any

from headrace.http.wire.fields import (
    MOST_COUNT,
    Fields,
    as_integer,
    as_number,
    as_object,
    wrong_value,
)
from headrace.http.wire.rules import BOOLEAN, Rule, count, integer, number, read_all
from headrace.runtime.contracts import Sampling


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


BIAS_SCHEMA = {
    "type": "object",
    "propertyNames": {"pattern": "^[0-9]{1,10}$"},
    "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
}

RULES: dict[str, Rule] = {
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "top_k": Rule(_top_k, {"type": "integer", "minimum": -1}),
    "min_p": number(0, 1),
    "xtc_probability": number(0, 1),
    "xtc_threshold": number(0, 0.5),
    "repetition_penalty": number(most=10, above=0),
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
    "repetition_context_size": count(),
    "presence_context_size": count(),
    "frequency_context_size": count(),
    "logit_bias": Rule(_logit_bias, BIAS_SCHEMA),
    "seed": integer(-(2**63), 2**64 - 1),
    "ignore_eos": BOOLEAN,
    "min_tokens": count(),
}


def read_sampling(fields: Fields, *, fresh_seed: int) -> tuple[Sampling, tuple[str, ...]]:
    """How to draw, and the names of the fields that the client itself set.

    A field outside that list may still be given a value by the model's own defaults.
    """
    given = read_all(fields, RULES)
    return Sampling(**{"seed": fresh_seed} | given), tuple(given)
