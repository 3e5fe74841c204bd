"""Event-stream framing (wire contract 1.6): one data line a frame, `\\n` ends, no ids, no retry."""

from __future__ import annotations

from typing import Any

import msgspec

CONTENT_TYPE = "text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"

_encode = msgspec.json.Encoder().encode


def frame(value: Any, event: str | None = None) -> bytes:
    """One frame that carries `value` as JSON. JSON text never holds a raw line break."""
    name = b"" if event is None else b"event: " + event.encode() + b"\n"
    return name + b"data: " + _encode(value) + b"\n\n"


class Opened:
    """The members that all objects of a stream begin with, encoded once."""

    def __init__(self, members: dict[str, Any]) -> None:
        self._begin = b"data: " + _encode(members)[:-1] + b","

    def frame(self, rest: dict[str, Any]) -> bytes:
        """The frame of one object; `rest` holds its further members, at least one."""
        return self._begin + _encode(rest)[1:] + b"\n\n"
