"""One request and its answer, from the head to the last byte."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import parse_qs

import msgspec
import trio
from hypercorn.typing import HTTPScope
from quart import Response

from headrace.http.access import RequestHead, bearer, cors_headers
from headrace.http.bodies import BodyHead, read_json, read_whole
from headrace.http.clients import asks_for_work
from headrace.http.identity import client_name, request_id
from headrace.http.wire.asking import Stamp
from headrace.http.wire.errors import (
    Family,
    condition,
    envelope,
    headers,
    internal_error,
    status_of,
)
from headrace.http.wire.families import decides, family_of
from headrace.http.work import Work
from headrace.runtime.errors import Code, ErrorInfo, RequestError

if TYPE_CHECKING:
    from headrace.http.edge import Edge

Outcome: TypeAlias = Literal["ok", "error", "cancelled", "refused"]

JSON = "application/json"
MOST_DIGITS = 9
# What a client that left would have seen.
CLIENT_GONE = 499
# Failures of ours; everything else that is no success was an answer of no.
FAILURES = frozenset({500, 502, 504})


class Exchange:
    """What the edge knows of one request while it is being answered."""

    def __init__(
        self, edge: Edge, scope: HTTPScope, token: str, chunks: AsyncIterator[bytes]
    ) -> None:
        self.edge = edge
        self.token = token
        self.chunks = chunks
        self.began = trio.current_time()
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._scheme: str = scope["scheme"]
        self._headers = [(name.lower(), value) for name, value in scope["headers"]]
        versioned = self.header("anthropic-version") is not None
        self.family: Family = family_of(self.path, versioned=versioned)
        self._query = parse_qs(scope["query_string"].decode("latin-1"))
        # Of the peer: a proxy's, where there is one.
        self.address = scope["client"][0] if scope["client"] else None
        self.id = request_id(self.header("x-request-id"), edge.live, token)
        # The matched pattern, so that counts do not multiply with the ids in paths.
        self.route = ""
        self.status: int | None = None
        self.error: ErrorInfo | None = None
        # Whether the last byte of the answer was handed over.
        self.complete = False
        # Whether a stream's last frame was: a client that has read it may leave before that byte.
        self._told = False
        self.work: Work | None = None
        self.response_id: str | None = None
        # What was opened for the answer is left after its last byte, in this same task.
        self.scopes = AsyncExitStack()

    # ---- what came in ----------------------------------------------------------------------

    def headers(self, name: str) -> tuple[str, ...]:
        """Every value of a header, as it came. `name` is in lower case."""
        wanted = name.encode()
        return tuple(value.decode("latin-1") for key, value in self._headers if key == wanted)

    def header(self, name: str) -> str | None:
        values = self.headers(name)
        return values[0] if values else None

    def head(self) -> RequestHead:
        return RequestHead(
            method=self.method,
            path=self.path,
            scheme=self._scheme,
            host=self.header("host"),
            origin=self.header("origin"),
            fetch_site=self.header("sec-fetch-site"),
            fetch_mode=self.header("sec-fetch-mode"),
            accept=self.header("accept"),
            authorization=self.headers("authorization"),
            x_api_key=self.headers("x-api-key"),
        )

    def query_integer(self, name: str, *, default: int) -> int:
        """A whole number of the query string. Raises `RequestError` (invalid_value)."""
        text = self._query.get(name, [str(default)])[-1]
        if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
            message = f"{name} must be a whole number."
            raise RequestError(Code.INVALID_VALUE, message, param=name)
        return int(text)

    def query_text(self, name: str) -> str | None:
        return self._query.get(name, [None])[-1]

    async def json_body(self) -> dict[str, Any]:
        """The JSON object of the body. Raises `RequestError`."""
        length = self.header("content-length")
        head = BodyHead(
            int(length) if length is not None and length.isdecimal() else None,
            self.header("content-type"),
            self.header("content-encoding"),
        )
        return await read_json(head, self.chunks, self.edge.body_limits)

    async def upload(self) -> bytes:
        """All bytes of a body that may be larger than JSON is. Raises `RequestError`."""
        length = self.header("content-length")
        return await read_whole(
            int(length) if length is not None and length.isdecimal() else None,
            self.chunks,
            self.edge.upload_limits,
        )

    async def optional_body(self) -> dict[str, Any]:
        """The JSON object of the body, or an empty one where nothing is sent."""
        if self.header("transfer-encoding") is None and self.header("content-length") in (
            None,
            "0",
        ):
            return {}
        return await self.json_body()

    def take_place(self) -> None:
        """Where the request asks for work, one of its client's places is taken until its answer is
        complete. Raises `RequestError` (client_limit)."""
        if asks_for_work(self.method, self.route):
            self.scopes.enter_context(self.edge.clients.place(self.client))

    def stamp(self) -> Stamp:
        """The clock and the chance that a protocol may use."""
        settings = self.edge.runtime.settings
        return Stamp(
            self.id,
            self.token,
            self.edge.draw_seed(),
            int(time.time()),
            self.route,
            most_choices=min(settings.max_n, settings.max_rows),
        )

    @property
    def client(self) -> str:
        key = bearer(self.header("authorization") or "") or self.header("x-api-key")
        return client_name(key if self.edge.policy.api_keys else None, self.address)

    # ---- what goes out ---------------------------------------------------------------------

    def json(self, value: Any, status: int = 200) -> Response:
        return Response(msgspec.json.encode(value), status, content_type=JSON)

    def failure(self, info: ErrorInfo) -> Response:
        """The whole answer to a request that failed before anything of it was sent."""
        shown = self.record(info)
        status = status_of(shown, self.family)
        response = self.json(envelope(shown, self.family, self.id), status)
        response.headers.update(headers(shown))
        return response

    def record(self, info: ErrorInfo) -> ErrorInfo:
        """Keep how the request failed, and give the failure as its client may see it.

        Of the inside that is the request's id and no more.
        """
        internal = info.code is Code.INTERNAL_ERROR
        self.error = internal_error(self.id) if internal else info
        return self.error

    def common_headers(self) -> dict[str, str]:
        """The headers of every response, errors and preflights included."""
        ids = {"X-Request-ID": self.id, "request-id": self.id}
        if decides(self.path):
            ids["x-typesafe-request-id"] = self.id
        return ids | cors_headers(self.edge.policy, self.header("origin"))

    # ---- how it went -----------------------------------------------------------------------

    def tell_ended(self) -> None:
        """The last frame of a stream is handed over."""
        self._told = True

    @property
    def seconds(self) -> float:
        return trio.current_time() - self.began

    @property
    def outcome(self) -> Outcome:
        cancelled = self.work is not None and self.work.cancelled is not None
        if not (self.complete or self._told) or cancelled:
            return "cancelled"
        if self.error is None:
            return "ok"
        return "error" if condition(self.error).status in FAILURES else "refused"

    def __repr__(self) -> str:
        return f"<Exchange {self.id} {self.method} {self.path} {self.status or 'open'}>"
