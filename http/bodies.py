"""Reading the body of a JSON route within its limits (wire contract 1.4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import attrs
import trio
from werkzeug.http import parse_options_header

from headrace.http.encodings import coding_of, decoded, too_large
from headrace.http.wire.json_text import parse_object
from headrace.runtime.errors import Code, RequestError


@attrs.frozen
class BodyLimits:
    """`most_bytes` counts before and after decoding; the idle limit is between two reads."""

    most_bytes: int
    idle_seconds: float
    total_seconds: float


@attrs.frozen
class BodyHead:
    """What the head says of the body: `length` is None for a chunked one."""

    length: int | None
    content_type: str | None
    content_encoding: str | None


async def read_json(
    head: BodyHead, chunks: AsyncIterator[bytes], limits: BodyLimits
) -> dict[str, Any]:
    """The JSON object that a request carries. What the head rules out is not read at all."""
    check_content_type(head.content_type)
    coding = coding_of(head.content_encoding)
    data = await read_whole(head.length, chunks, limits)
    if coding is not None:
        # Megabytes of output take tens of milliseconds: the loop must not wait for them.
        data = await trio.to_thread.run_sync(decoded, data, coding, limits.most_bytes)
    return parse_object(data)


def check_content_type(header: str | None) -> None:
    """JSON by its own name or by a suffix, in UTF-8; no name at all is taken for it."""
    name, options = parse_options_header(header)
    name = name.lower()
    is_json = name == "application/json" or (
        name.startswith("application/") and name.endswith("+json")
    )
    if name and not is_json:
        raise _unsupported("The content type must be application/json.")
    if options.get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise _unsupported("JSON bodies are read as UTF-8 only.")


async def read_whole(length: int | None, chunks: AsyncIterator[bytes], limits: BodyLimits) -> bytes:
    """All bytes of a body. Raises `RequestError`: body_too_large, request_timeout."""
    if length is not None and length > limits.most_bytes:
        raise too_large(limits.most_bytes)
    data = bytearray()
    with trio.move_on_after(limits.total_seconds):
        while (chunk := await _next(chunks, limits.idle_seconds)) is not None:
            if len(data) + len(chunk) > limits.most_bytes:
                raise too_large(limits.most_bytes)
            data += chunk
        return bytes(data)
    raise _timeout(f"The body did not arrive within {limits.total_seconds:g} seconds.")


async def _next(chunks: AsyncIterator[bytes], seconds: float) -> bytes | None:
    with trio.move_on_after(seconds):
        return await anext(chunks, None)
    raise _timeout(f"Nothing of the body arrived for {seconds:g} seconds.")


def _timeout(message: str) -> RequestError:
    return RequestError(Code.REQUEST_TIMEOUT, message)


def _unsupported(message: str) -> RequestError:
    return RequestError(Code.UNSUPPORTED_MEDIA_TYPE, message)
