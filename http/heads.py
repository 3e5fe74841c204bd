"""What a request's head must be before it becomes a request, and the answer to one that is not.

Strict where two readers of one message could understand it differently: whoever stands in front of
the server would then let something pass that it has not seen (RFC 9112, section 11.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import attrs
import msgspec

from headrace.http.wire.errors import condition, envelope, headers
from headrace.runtime.errors import Code, ErrorInfo, RequestError

Fields: TypeAlias = Sequence[tuple[bytes, bytes]]

# A browser sends some twenty, an SDK behind two proxies some forty.
MOST_FIELDS = 100
# Of target and fields together; cookies of other servers on this machine's name come here too.
MOST_HEAD_BYTES = 32 * 1024
# Between name and value, and at the end of the line.
FIELD_BYTES = 4

TOO_MANY = ErrorInfo(Code.HEAD_TOO_LARGE, f"The head has more than {MOST_FIELDS} header fields.")
TOO_LARGE = ErrorInfo(
    Code.HEAD_TOO_LARGE,
    f"The head, or a line between the body's chunks, is larger than {MOST_HEAD_BYTES} bytes.",
)
NOT_HTTP = ErrorInfo(Code.INVALID_HTTP, "What was received is not a valid HTTP message.")
# By the status that h11 finds for what it cannot read.
BY_STATUS = {
    431: TOO_LARGE,
    501: ErrorInfo(Code.NOT_IMPLEMENTED, "The only transfer encoding that is read is chunked."),
}


def unreadable(status: int) -> ErrorInfo:
    return BY_STATUS.get(status, NOT_HTTP)


def check_fields(target: bytes, fields: Fields) -> None:
    """Raises `RequestError` (head_too_large)."""
    if len(fields) > MOST_FIELDS:
        raise RequestError.of(TOO_MANY)
    size = sum(len(name) + len(value) + FIELD_BYTES for name, value in fields)
    if len(target) + size > MOST_HEAD_BYTES:
        raise RequestError.of(TOO_LARGE)


def check_framing(version: bytes, fields: Fields) -> None:
    """One message has one length. Raises `RequestError` (invalid_http).

    RFC 9112, section 6.1, lets a server refuse both lengths at once, and calls a transfer encoding
    under HTTP/1.0 faulty.
    """
    names = {name.lower() for name, _ in fields}
    if b"transfer-encoding" not in names:
        return
    if b"content-length" in names:
        text = "The message has both a Content-Length and a Transfer-Encoding."
        raise RequestError(Code.INVALID_HTTP, text)
    if version == b"1.0":
        raise RequestError(Code.INVALID_HTTP, "HTTP/1.0 has no Transfer-Encoding.")


def origin_form(target: bytes, fields: Fields) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """A target as path and query, and the fields without any wish for another protocol.

    The host in a target counts, whatever the field says (RFC 9112, section 3.2.2). Raises
    `RequestError` (invalid_http).
    """
    kept = [(name, value) for name, value in fields if name.lower() != b"upgrade"]
    if target.startswith(b"/") or target == b"*":
        return target, kept
    scheme, separator, rest = target.partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        raise RequestError(Code.INVALID_HTTP, "The target is neither a path nor a URL of HTTP.")
    ends = [end for end in map(rest.find, (b"/", b"?")) if end >= 0]
    end = min(ends, default=len(rest))
    authority, path = rest[:end], rest[end:]
    others = [(name, value) for name, value in kept if name.lower() != b"host"]
    return (path if path.startswith(b"/") else b"/" + path), [(b"host", authority), *others]


@attrs.frozen
class Refusal:
    """The whole answer to what never became a request. `id` is fresh: no other could be read."""

    info: ErrorInfo
    id: str

    @property
    def status(self) -> int:
        return condition(self.info).status

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(envelope(self.info, "openai", self.id))

    def fields(self) -> list[tuple[bytes, bytes]]:
        """Without what belongs to one version of the protocol only."""
        named = {
            "content-type": "application/json",
            "content-length": str(len(self.body)),
            "x-request-id": self.id,
            "request-id": self.id,
        }
        return _encoded([*named.items(), *headers(self.info).items()])


def _encoded(fields: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in fields]
