"""Stop strings, under whatever name a protocol has for them (wire contract 3.4)."""

from __future__ import annotations

from headrace.http.wire.fields import Fields, as_text, wrong_type, wrong_value

MOST_STOPS = 16


def read_stops(fields: Fields, name: str) -> tuple[str, ...]:
    """The strings that end an answer; empty ones never match and are left out."""
    value = fields.value(name)
    path = fields.path(name)
    if value is None or isinstance(value, str):
        return (value,) if value else ()
    if not isinstance(value, list):
        raise wrong_type(path, "a string or an array of strings")
    if len(value) > MOST_STOPS:
        raise wrong_value(path, f"must hold at most {MOST_STOPS} strings")
    stops = [as_text(stop, f"{path}[{index}]") for index, stop in enumerate(value)]
    return tuple(stop for stop in stops if stop)
