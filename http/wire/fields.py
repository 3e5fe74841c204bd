"""Typed reading of decoded JSON, with errors that name the field by its path.

The rules are those of wire contract section 0: null stands for absent, an int may be written
3.0 but is never a boolean, a wrong type and a right type out of range are different errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from headrace.runtime.errors import Code, RequestError

T = TypeVar("T")

# Beyond any context all counts mean the same; the bound keeps them inside an int32.
MOST_COUNT = 2**31 - 1
# What a number of any message between processes can be.
LEAST_INTEGER, MOST_INTEGER = -(2**63), 2**64 - 1


def wrong_type(path: str, expected: str) -> RequestError:
    return RequestError(Code.INVALID_TYPE, f"{path} must be {expected}.", param=path)


def wrong_value(path: str, rule: str) -> RequestError:
    return RequestError(Code.INVALID_VALUE, f"{path} {rule}.", param=path)


def missing(path: str) -> RequestError:
    return RequestError(Code.MISSING_FIELD, f"{path} is required.", param=path)


def unsupported(path: str) -> RequestError:
    message = f"{path} is not supported on this route."
    return RequestError(Code.UNSUPPORTED_PARAMETER, message, param=path)


def as_integer(value: Any, path: str, least: int | None = None, most: int | None = None) -> int:
    """A whole number in [least, most]; 3.0 counts as one, True does not."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type(path, "an integer")
    return int(_in_range(value, path, least, most))


def as_number(
    value: Any,
    path: str,
    least: float | None = None,
    most: float | None = None,
    *,
    above: float | None = None,
) -> float:
    """A finite number in [least, most], and greater than `above` where that is given."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise wrong_type(path, "a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise wrong_value(path, "must be finite")
    if above is not None and value <= above:
        raise wrong_value(path, f"must be greater than {above:g}")
    return float(_in_range(value, path, least, most))


def as_boolean(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise wrong_type(path, "a boolean")
    return value


def as_text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise wrong_type(path, "a string")
    return value


def as_array(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise wrong_type(path, "an array")
    return value


def as_object(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong_type(path, "an object")
    return value


def as_choice(value: Any, path: str, choices: Iterable[str]) -> str:
    text = as_text(value, path)
    names = list(choices)
    if text not in names:
        raise wrong_value(path, f"must be one of {', '.join(names)}")
    return text


def as_count(value: Any, path: str, least: int = 0) -> int:
    return min(as_integer(value, path, least), MOST_COUNT)


def as_json(value: Any, path: str) -> Any:
    """A value whose inside is for others to read. Its integers must fit into 64 bits."""
    if not is_portable(value):
        raise wrong_value(path, "must not hold integers beyond 64 bits")
    return value


def is_portable(value: Any) -> bool:
    """Whether all integers inside fit into 64 bits. One level after the other: see `json_text`."""
    level = [value]
    while level:
        if any(type(v) is int and not LEAST_INTEGER <= v <= MOST_INTEGER for v in level):
            return False
        level = [child for node in level for child in children(node)]
    return True


def children(node: Any) -> Iterable[Any]:
    """What stands right inside a value of JSON."""
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list) else ()


class Fields:
    """One JSON object. Each reader gives None for a field that is absent or null."""

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self._values = values
        self._path = path

    @classmethod
    def of(cls, value: Any, path: str) -> Fields:
        return cls(as_object(value, path), path)

    def path(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    @property
    def whole(self) -> str:
        """The path of the object itself."""
        return self._path

    def names(self) -> set[str]:
        return set(self._values)

    def has(self, name: str) -> bool:
        """Whether the field is there at all, null or not."""
        return name in self._values

    def value(self, name: str) -> Any:
        return self._values.get(name)

    def read(self, name: str, reader: Callable[[Any, str], T]) -> T | None:
        """What `reader` makes of the field's value and path."""
        value = self._values.get(name)
        return None if value is None else reader(value, self.path(name))

    def required(self, name: str) -> Any:
        value = self._values.get(name)
        if value is None:
            raise missing(self.path(name))
        return value

    def required_text(self, name: str) -> str:
        return as_text(self.required(name), self.path(name))

    def required_object(self, name: str) -> Fields:
        return Fields.of(self.required(name), self.path(name))

    def integer(self, name: str, least: int | None = None, most: int | None = None) -> int | None:
        return self.read(name, lambda value, path: as_integer(value, path, least, most))

    def count(self, name: str, least: int = 0) -> int | None:
        return self.read(name, lambda value, path: as_count(value, path, least))

    def boolean(self, name: str) -> bool | None:
        return self.read(name, as_boolean)

    def text(self, name: str) -> str | None:
        return self.read(name, as_text)

    def array(self, name: str) -> list[Any] | None:
        return self.read(name, as_array)

    def object(self, name: str) -> Fields | None:
        return self.read(name, Fields.of)

    def each(self, name: str) -> list[Fields]:
        """The objects of an array; none where it is absent."""
        path = self.path(name)
        return [Fields.of(item, f"{path}[{i}]") for i, item in enumerate(self.array(name) or ())]


def _in_range(value: float, path: str, least: float | None, most: float | None) -> float:
    """Compares before any conversion, as a JSON integer may be larger than any float."""
    if least is not None and value < least:
        raise wrong_value(path, f"must be at least {_shown(least)}")
    if most is not None and value > most:
        raise wrong_value(path, f"must be at most {_shown(most)}")
    return value


def _shown(limit: float) -> str:
    return str(limit) if isinstance(limit, int) else f"{limit:g}"
