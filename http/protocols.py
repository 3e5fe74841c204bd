"""HTTP/1.1 and HTTP/2 as hypercorn speaks them, with answers to what it only closes on.

Nothing is upgraded: there are no websockets, and HTTP/2 is for clients that know beforehand or by
ALPN. A proxy that lets an upgrade pass would no longer see the requests that follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import h2.errors
import h2.events
import h11
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.h11 import H2ProtocolAssumedError, H11Protocol

from headrace.http.heads import (
    Refusal,
    check_fields,
    check_framing,
    origin_form,
    unreadable,
)
from headrace.runtime.errors import ErrorInfo, RequestError

# Counts and logs a refusal, and makes its answer.
Refuse: TypeAlias = Callable[[ErrorInfo], Refusal]

# Requests of one connection that its client may take back, beyond half of them: to ask and reset
# costs it nothing, and the server a request each time (CVE-2023-44487).
MOST_RESETS = 100


class Http1(H11Protocol):
    def __init__(self, *arguments: Any, refuse: Refuse) -> None:
        super().__init__(*arguments)
        self._refuse = refuse

    async def handle(self, event: Event) -> None:
        try:
            await super().handle(event)
        except RequestError as error:
            await self.answer(error.info)
            await self.send(Closed())

    async def _check_protocol(self, event: h11.Request) -> None:
        """hypercorn asks this of every head. Raises `RequestError`."""
        fields = event.headers.raw_items()
        check_fields(event.target, fields)
        check_framing(event.http_version, fields)
        if event.method == b"PRI":
            await super()._check_protocol(event)

    async def _create_stream(self, request: h11.Request) -> None:
        target, fields = origin_form(request.target, request.headers.raw_items())
        plain = h11.Request(
            method=request.method,
            target=target,
            headers=fields,
            http_version=request.http_version,
        )
        await super()._create_stream(plain)

    async def _send_error_response(self, status_code: int) -> None:
        await self.answer(unreadable(status_code))

    async def answer(self, info: ErrorInfo) -> None:
        """Write the whole answer to what became no request; the connection ends with it."""
        refusal = self._refuse(info)
        fields = [*refusal.fields(), (b"connection", b"close"), *self._own_fields()]
        await self._send_h11_event(h11.Response(status_code=refusal.status, headers=fields))
        await self._send_h11_event(h11.Data(data=refusal.body))
        await self._send_h11_event(h11.EndOfMessage())

    def _own_fields(self) -> list[tuple[bytes, bytes]]:
        return self.config.response_headers("h11")


class Http2(H2Protocol):
    def __init__(self, *arguments: Any, refuse: Refuse) -> None:
        super().__init__(*arguments)
        self._refuse = refuse
        self._resets = 0

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        for event in events:
            if isinstance(event, h2.events.DataReceived) and event.stream_id not in self.streams:
                # It was answered, or refused, before all of its body had come.
                size = event.flow_controlled_length or 0
                self.connection.acknowledge_received_data(size, event.stream_id)
                await self._flush()
                continue
            if isinstance(event, h2.events.StreamReset) and event.stream_id in self.streams:
                self._resets += 1
            await super()._handle_events([event])
            if self._resets > max(MOST_RESETS, self.keep_alive_requests // 2):
                self.connection.close_connection(h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
                await self._flush()
                await self.send(Closed())
                return

    async def _create_stream(self, request: h2.events.RequestReceived) -> None:
        fields = [(bytes(name), bytes(value)) for name, value in request.headers or ()]
        pseudo = dict(field for field in fields if field[0].startswith(b":"))
        method, path = pseudo.get(b":method", b""), pseudo.get(b":path", b"")
        readable = method.isascii() and path.isascii() and path[:1] in (b"/", b"*")
        if not readable or method == b"CONNECT":
            self._reset(request.stream_id)
            return
        try:
            check_fields(path, fields)
        except RequestError as error:
            self._answer(request.stream_id, error.info)
        else:
            await super()._create_stream(request)

    def _reset(self, stream_id: int) -> None:
        code = h2.errors.ErrorCodes.PROTOCOL_ERROR
        self.connection.reset_stream(stream_id, error_code=code)

    def _answer(self, stream_id: int, info: ErrorInfo) -> None:
        refusal = self._refuse(info)
        if self.connection.local_flow_control_window(stream_id) < len(refusal.body):
            self._reset(stream_id)
            return
        status = (b":status", b"%d" % refusal.status)
        self.connection.send_headers(stream_id, [status, *refusal.fields()])
        self.connection.send_data(stream_id, refusal.body, end_stream=True)


class Protocols(ProtocolWrapper):
    """The protocol of one connection; one that begins with HTTP/1.1 may turn out to be HTTP/2."""

    def __init__(self, arguments: tuple[Any, ...], alpn: str | None, refuse: Refuse) -> None:
        """`arguments` are those that hypercorn gives to a protocol."""
        super().__init__(*arguments)
        self._arguments = arguments
        self._refuse = refuse
        kind = Http2 if alpn == "h2" else Http1
        # hypercorn's own knows nothing of refusals.
        self.protocol = kind(*arguments, refuse=refuse)

    async def handle(self, event: Event) -> None:
        try:
            await self.protocol.handle(event)
        except H2ProtocolAssumedError as assumed:
            self.protocol = Http2(*self._arguments, refuse=self._refuse)
            await self.protocol.initiate()
            await self.protocol.handle(RawData(data=assumed.data))
