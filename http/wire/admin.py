"""The small bodies of the admin routes (wire contract 13.8). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from headrace.http.wire.fields import as_boolean, as_number


@attrs.frozen
class LoadOrder:
    """Make a model resident; perhaps also the current one, or pinned."""

    current: bool
    pin: bool


def load_order(body: Mapping[str, Any]) -> LoadOrder:
    """Raises `RequestError`, as all here."""
    return LoadOrder(_flag(body, "current"), _flag(body, "pin"))


def unload_force(body: Mapping[str, Any]) -> bool:
    return _flag(body, "force")


def drain_seconds(body: Mapping[str, Any], default: float) -> float:
    value = body.get("timeout_s")
    return default if value is None else as_number(value, "timeout_s", 0, 86_400)


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    return False if value is None else as_boolean(value, name)
