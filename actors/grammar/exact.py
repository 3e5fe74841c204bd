"""Numbers and values of a schema as the grammar can hold an answer to them, exactly."""

from __future__ import annotations

import math
from typing import Any

from headrace.actors.grammar.keywords import is_number
from headrace.actors.grammar.refusal import refused

DEPTH = 32
# The library counts in 64 bits; this is the largest float within.
LARGEST = float(2**63 - 1024)
# No answer gets past the first of these; a schema may not ask for more than the second.
MOST, LEAST = 1 << 20, 1 << 14
# What the JSON strings of an answer can express without \u.
ESCAPED = frozenset("\b\f\n\r\t")


def count(keyword: str, given: int | float, at: str) -> int:
    """A length, or a number of items."""
    if keyword.startswith("max"):
        return int(min(given, MOST))
    if given > LEAST:
        raise refused(keyword, at, f"may be {LEAST} at most")
    return int(given)


def inward(keyword: str, given: int | float, at: str) -> int | float:
    """The nearest number within the bound that a float holds and the grammar can count to."""
    lower = keyword in ("minimum", "exclusiveMinimum")
    try:
        number = float(given)
    except OverflowError:
        raise refused(keyword, at, "is out of range") from None
    if (number < given) if lower else (number > given):
        number = math.nextafter(number, math.inf if lower else -math.inf)
    number = max(number, -LARGEST) if lower else min(number, LARGEST)
    return int(number) if number.is_integer() and abs(number) <= LARGEST else number


def value_of(value: Any, keyword: str, at: str, depth: int = 0) -> Any:
    """A value that an answer may have. Refused where the grammar could not spell just that."""
    if depth > DEPTH:
        raise refused(keyword, at, "has a value that is nested too deep")
    if isinstance(value, str) and any(map(_unwritable, value)):
        raise refused(keyword, at, "has a string with control characters")
    if is_number(value) and isinstance(value, int) and abs(value) > 2**53:
        return _large(value, keyword, at)
    if isinstance(value, list):
        return [value_of(item, keyword, at, depth + 1) for item in value]
    if isinstance(value, dict):
        return {name: value_of(item, keyword, at, depth + 1) for name, item in value.items()}
    return value


def _unwritable(char: str) -> bool:
    return (char < " " and char not in ESCAPED) or char == "\x7f"


def _large(value: int, keyword: str, at: str) -> int | float:
    if abs(value) > LARGEST or int(float(value)) != value:
        raise refused(keyword, at, "has a number with more digits than a float holds")
    return value
