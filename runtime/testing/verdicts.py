"""What any answer to any body must be, whatever is wrong with the body."""

from __future__ import annotations

import json

from headrace.http.wire.errors import condition
from headrace.runtime.errors import Code, ErrorInfo

# Words of the inside, none of which a client may see.
INSIDE = [b"Traceback", b"Error(", b".py", b"msgspec", b"headrace.", b"object at 0x"]


def complaint(status: int, content_type: str, body: bytes) -> str:
    """What is wrong with an answer in the OpenAI shape; "" where it is as it must be."""
    if status == 200:
        return _stream_complaint(body) if "event-stream" in content_type else ""
    if not 400 <= status < 500:
        return f"status {status}"
    # Clients see what they sent, which may be anything.
    error = json.loads(body)["error"]
    if set(error) - {"details"} != {"message", "type", "param", "code"}:
        return f"members {sorted(error)}"
    code = Code(error["code"])
    row = condition(ErrorInfo(code, ""))
    if (row.status, row.type) != (status, error["type"]):
        return f"{code} as {status} {error['type']}"
    inside = [word for word in INSIDE if word in body]
    return f"shows {inside}" if inside else ""


def _stream_complaint(body: bytes) -> str:
    """It has begun, so it must come to its end."""
    if not body.endswith(b"data: [DONE]\n\n"):
        return f"ends with {body[-200:]!r}"
    return "has an error" if b'data: {"error"' in body else ""
