"""How an answer tells that it differs from what was asked (wire contract 1.9)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.runtime.contracts import Warning_


def warning_header(warnings: Iterable[Warning_]) -> str:
    """The value of a `Warning` header: ASCII, one quoted text for each warning."""
    return ", ".join(f'299 headrace "{_quoted(warning.message)}"' for warning in warnings)


def warning_member(warnings: Iterable[Warning_]) -> dict[str, Any]:
    """The `warnings` member of a body, or nothing where there are none."""
    listed = [
        {"code": warning.code, "message": warning.message, "param": warning.param}
        for warning in warnings
    ]
    return {"warnings": listed} if listed else {}


def _quoted(text: str) -> str:
    printable = "".join(c if " " <= c <= "~" else "?" for c in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')
