"""Bodies that no client should send: good ones with something in them changed.

Most are still JSON, with a value somewhere that does not belong there, so that they come past the
first check; some are not even that. Everything follows from a seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

Mutation: TypeAlias = Callable[[random.Random, Any], Any]
# A place in a value: keys and indices from its root.
Place: TypeAlias = tuple[Any, ...]

# Values that somebody has once taken for something else.
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3.0, 0.5, -0.0, 1e-300, 1e308, 10**30, -(10**30), 2**31, 2**63,
    2**64, "", " ", "a", "0", "-1", "null", "true", "NaN", "\x00", "\u2028", "é", "👩‍👩‍👧",
    "x" * 3000, "</think>", "<tool_call>", "<|im_end|>", "{{ x }}", "../../etc", "[]", [], [[]],
    [None], [0, "a"], [[], {}], ["a"] * 20, {}, {"": ""}, {"type": None}, {"type": "x"}, {"a": {}},
    {"$ref": "#"}, {"name": ""}, {"1": None}, [{}] * 3,
)  # fmt: skip
# Names that mean something in one place or another.
NAMES = (
    "messages", "prompt", "model", "stream", "stream_options", "temperature", "logit_bias", "tools",
    "tool_choice", "response_format", "content", "role", "type", "text", "name", "function",
    "arguments", "parameters", "tool_calls", "tool_call_id", "n", "stop", "max_tokens", "logprobs",
    "top_logprobs", "schema", "json_schema", "guided_regex", "guided_grammar", "guided_json",
    "structured_outputs", "chat_template_kwargs", "reasoning_effort", "reasoning_budget", "echo",
    "seed", "best_of", "adapter", "input", "system", "metadata", "hlg", "__proto__", "",
)  # fmt: skip
# What is not JSON, or more than JSON.
RAW = (
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"00", b"+1", b".5", b"'a'", b'"\\ud800"',
    b'"\\udc00\\ud800"', b'"\xff"', b'"\xed\xa0\x80"', b"/**/1", b"[1,]", b'{"a":1,}', b"\x00",
    b'"' + b"\\" * 3 + b'"', b"[" * 120 + b"]" * 120, b"9" * 400, b"undefined", b"",
)  # fmt: skip


def bodies(good: Sequence[dict[str, Any]], seed: int) -> Iterator[bytes]:
    """An endless row of bodies, each made of one of these."""
    chance = random.Random(seed)
    while True:
        body = json.loads(json.dumps(chance.choice(good)))
        for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
            body = chance.choice(MUTATIONS)(chance, body)
        yield _written(chance, body)


def _written(chance: random.Random, body: Any) -> bytes:
    text = json.dumps(body, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    if chance.random() < 0.15:
        return chance.choice((_cut, _flipped, _doubled, _spliced))(chance, text)
    return text


# ---- changes of a value -------------------------------------------------------------------


def _replace(chance: random.Random, body: Any) -> Any:
    return _changed(body, _any_place(chance, body), lambda _: chance.choice(ODD))


def _nudge(chance: random.Random, body: Any) -> Any:
    """A value of the same type, nearly the same or at its limits."""

    def nudged(value: Any) -> Any:
        match value:
            case bool():
                return chance.choice((not value, int(value)))
            case int() | float():
                return chance.choice((value + 1, -value, value * 1000, float(value), value / 3))
            case str():
                return chance.choice((value + "\n", value * 3, value.upper(), value[1:], " "))
            case list():
                return chance.choice((value * 2, value[:-1], value[::-1]))
            case dict():
                return dict(reversed(value.items()))
        return value

    return _changed(body, _any_place(chance, body), nudged)


def _drop(chance: random.Random, body: Any) -> Any:
    place = _inner_place(chance, body)
    if place is None:
        return body
    *front, last = place

    def dropped(holder: Any) -> Any:
        if isinstance(holder, list):
            return [*holder[:last], *holder[last + 1 :]]
        return {key: value for key, value in holder.items() if key != last}

    return _changed(body, tuple(front), dropped)


def _add(chance: random.Random, body: Any) -> Any:
    """A member with a name of somewhere else."""

    def added(holder: Any) -> Any:
        value = chance.choice(ODD)
        if isinstance(holder, dict):
            return {**holder, chance.choice(NAMES): value}
        return [*holder, value] if isinstance(holder, list) else holder

    return _changed(body, _any_place(chance, body), added)


def _move(chance: random.Random, body: Any) -> Any:
    """A part of the body in the place of another."""
    part = _at(body, _any_place(chance, body))
    copied = json.loads(json.dumps(part))
    return _changed(body, _any_place(chance, body), lambda _: copied)


def _wrap(chance: random.Random, body: Any) -> Any:
    wrapped = chance.choice((lambda v: [v], lambda v: {"value": v}, lambda v: json.dumps(v)))
    place = _inner_place(chance, body)
    return body if place is None else _changed(body, place, wrapped)


def _deepen(chance: random.Random, body: Any) -> Any:
    depth = chance.choice((5, 30, 95, 150))

    def deepened(value: Any) -> Any:
        for _ in range(depth):
            value = [value] if chance.random() < 0.5 else {"a": value}
        return value

    place = _inner_place(chance, body)
    return body if place is None else _changed(body, place, deepened)


MUTATIONS: tuple[Mutation, ...] = (
    _replace, _replace, _replace, _nudge, _nudge, _drop, _add, _add, _move, _wrap, _deepen,
)  # fmt: skip


# ---- changes of a text --------------------------------------------------------------------


def _cut(chance: random.Random, text: bytes) -> bytes:
    return text[: chance.randrange(len(text) + 1)]


def _flipped(chance: random.Random, text: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(chance.choice((1, 1, 3)) if changed else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _doubled(chance: random.Random, text: bytes) -> bytes:
    """Names may stand twice."""
    a = chance.randrange(len(text) + 1)
    return text[:a] + text[max(0, a - chance.randrange(40)) :]


def _spliced(chance: random.Random, text: bytes) -> bytes:
    """Something that is no JSON in the place of a value."""
    ends = [at for at, byte in enumerate(text) if byte in b",}]"]
    if not ends:
        return chance.choice(RAW)
    end = chance.choice(ends)
    start = max(text.rfind(mark, 0, end) for mark in (b":", b",", b"["))
    return text[: start + 1] + chance.choice(RAW) + text[end:]


# ---- places -------------------------------------------------------------------------------


def places(value: Any) -> list[Place]:
    """Every place in a value, its own root first."""
    found: list[tuple[Place, Any]] = [((), value)]
    for place, part in found:  # which grows
        if isinstance(part, dict):
            found += [((*place, key), inner) for key, inner in part.items()]
        elif isinstance(part, list):
            found += [((*place, index), inner) for index, inner in enumerate(part)]
    return [place for place, _ in found]


def _any_place(chance: random.Random, body: Any) -> Place:
    return chance.choice(places(body))


def _inner_place(chance: random.Random, body: Any) -> Place | None:
    inner = places(body)[1:]
    return chance.choice(inner) if inner else None


def _at(value: Any, place: Place) -> Any:
    for key in place:
        value = value[key]
    return value


def _changed(value: Any, place: Place, change: Callable[[Any], Any]) -> Any:
    if not place:
        return change(value)
    key, rest = place[0], place[1:]
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[key] = _changed(value[key], rest, change)
    return copy
