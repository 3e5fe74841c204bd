"""What any answer to any body must be, whatever is wrong with the body."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from headrace.http.wire.errors import Family, envelope, status_of
from headrace.http.wire.families import decides, family_of
from headrace.runtime.errors import Code, ErrorInfo

# Words of the inside, none of which a client may see.
INSIDE = [b"Traceback", b"Error(", b".py", b"msgspec", b"headrace.", b"object at 0x"]
# How the stream of a route ends, and what an error in it looks like.
ENDS = {
    "/v1/messages": (b'data: {"type":"message_stop"}\n\n', b"event: error"),
    "/v1/responses": (b"\n\n", b"event: error"),
}
OPENAI_END = (b"data: [DONE]\n\n", b'data: {"error"')


def complaint(path: str, status: int, content_type: str, body: bytes) -> str:
    """What is wrong with a route's answer; "" where it is as it must be."""
    if status == 200:
        return _of_stream(path, body) if "event-stream" in content_type else ""
    if not 400 <= status < 500:
        return f"status {status}"
    # What is to be decided may be asked in two shapes on one path.
    families: tuple[Family, ...] = ("openai", "jev") if decides(path) else (family_of(path),)
    wrong = _of_refusal(families, status, json.loads(body))
    # Clients see what they sent, which may be anything.
    inside = [word for word in INSIDE if word in body]
    return wrong or (f"shows {inside}" if inside else "")


def _of_refusal(families: Sequence[Family], status: int, body: dict[str, Any]) -> str:
    """The same members as a failure with this code has, and its status and type."""
    told = body["error"]
    info = ErrorInfo(Code(told["code"]), told["message"], told["param"], told.get("details"))
    expected = envelope(info, families[0], body.get("request_id", ""))
    # An envelope may say more than the message that it was given.
    expected["error"]["message"] = told["message"]
    if body != expected:
        return f"is not {expected}"
    known = status in [status_of(info, family) for family in families]
    return "" if known else f"{info.code} as {status}"


def _of_stream(path: str, body: bytes) -> str:
    """It has begun, so it must come to its end."""
    end, error = ENDS.get(path, OPENAI_END)
    if not body.endswith(end):
        return f"ends with {body[-200:]!r}"
    return "has an error" if error in body else ""
