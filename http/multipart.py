"""A multipart body: a JSON request and the files that it speaks of."""

from __future__ import annotations

from typing import Any

import attrs
from werkzeug.datastructures import Headers
from werkzeug.http import parse_options_header
from werkzeug.sansio.multipart import Data, Epilogue, Field, File, MultipartDecoder, NeedData

from headrace.http.bodies import check_content_type
from headrace.http.wire.fields import wrong_value
from headrace.http.wire.json_text import parse_object
from headrace.runtime.errors import Code, RequestError

FORM = "multipart/form-data"
REQUEST = "request"
MOST_PARTS = 1000


@attrs.frozen
class Form:
    """`files` are the parts behind the request, by name."""

    request: dict[str, Any]
    files: dict[str, bytes] = attrs.field(factory=dict)


@attrs.define
class Part:
    """`filename` is None for a field that is no file."""

    name: str
    headers: Headers
    filename: str | None = None
    data: bytearray = attrs.field(factory=bytearray)


def is_form(content_type: str | None) -> bool:
    return parse_options_header(content_type)[0].lower() == FORM


def read_form(data: bytes, content_type: str | None) -> Form:
    """Raises `RequestError`: invalid_json for what is no such body, invalid_value for parts out
    of place, unsupported_media_type for a request that is no JSON."""
    parts = read_parts(data, content_type)
    if not parts or parts[0].name != REQUEST:
        raise _malformed(f"The first part must be named {REQUEST!r}.")
    first, *files = parts
    check_content_type(first.headers.get("content-type"))
    names = [part.name for part in files]
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise wrong_value(twice, "must be there once only")
    return Form(parse_object(bytes(first.data)), {part.name: bytes(part.data) for part in files})


def read_parts(data: bytes, content_type: str | None) -> list[Part]:
    """The fields of a form, in order. Raises `RequestError` (invalid_json)."""
    boundary = parse_options_header(content_type)[1].get("boundary")
    if not boundary:
        raise _malformed("The content type names no boundary.")
    decoder = MultipartDecoder(boundary.encode("latin-1"), max_parts=MOST_PARTS)
    parts: list[Part] = []
    try:
        decoder.receive_data(data)
        decoder.receive_data(None)
        while not isinstance(event := decoder.next_event(), Epilogue | NeedData):
            if isinstance(event, Field | File):
                filename = event.filename if isinstance(event, File) else None
                parts.append(Part(event.name or "", event.headers, filename))
            elif isinstance(event, Data):
                parts[-1].data += event.data
    except Exception:
        # The parser raises errors of several kinds, whose words are about its own inside.
        raise _malformed("The body is no valid multipart form.") from None
    return parts


def _malformed(message: str) -> RequestError:
    return RequestError(Code.INVALID_JSON, message)
