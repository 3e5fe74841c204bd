"""An event stream as the body of a response. The request's scope belongs to the exchange."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable

import trio
from quart import Response

from headrace.http.exchange import Exchange
from headrace.http.pulled import PulledBody
from headrace.http.several import open_work
from headrace.http.wire.answer import warnings_of
from headrace.http.wire.asking import Answerable, Asked, SoFar, StreamWriter
from headrace.http.wire.frames import CONTENT_TYPE
from headrace.http.wire.warned import warning_header
from headrace.http.work import Work
from headrace.runtime.contracts import Accepted, Event, Failed, Finished
from headrace.runtime.errors import Code, ErrorInfo, RequestError

logger = logging.getLogger(__name__)

HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


class EventStream(PulledBody):
    """Pulls the events of a request's work and gives their frames, with signs of life in silence.

    `silence_seconds` is the longest time without a byte; `math.inf` turns the signs off.
    `record` is told of a failure and gives it back as the client may see it, `ended` is called when
    the last frame is handed over, and `settle` is awaited before that.
    """

    def __init__(
        self,
        work: Work,
        writer: StreamWriter,
        *,
        silence_seconds: float,
        record: Callable[[ErrorInfo], ErrorInfo],
        ended: Callable[[], None],
        settle: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.accepted: Accepted | None = None
        self._work = work
        self._writer = writer
        self._silence_seconds = silence_seconds
        self._record = record
        self._tell_ended = ended
        self._settle = settle
        self._ready: list[bytes] = []
        self._ended = False

    async def first_output(self) -> None:
        """Wait for what commits the stream: the first output, or a silence that needs a sign.

        Raises `RequestError` for a failure that comes before either: then nothing was sent, and
        the answer can still be a plain one.
        """
        deadline = trio.current_time() + self._silence_seconds
        committed = False
        while not committed:
            events = await self._receive(deadline)
            if events is None:
                self._ready.append(self._sign_of_life())
                return
            for event in events:
                if isinstance(event, Failed) and not committed:
                    raise RequestError.of(event.error)
                self._take(event)
                committed = committed or not isinstance(event, Accepted)

    # ---- the body --------------------------------------------------------------------------

    async def __anext__(self) -> bytes:
        deadline = trio.current_time() + self._silence_seconds
        while not self._ready:
            if self._ended:
                await trio.lowlevel.checkpoint()
                raise StopAsyncIteration
            events = await self._receive(deadline)
            if events is None:
                return self._sign_of_life()
            for event in events:
                self._take(event)
        if self._ended and self._settle is not None:
            settle, self._settle = self._settle, None
            await settle()
        frames, self._ready = self._ready, []
        if self._ended:
            self._tell_ended()
        return b"".join(frames)

    def _sign_of_life(self) -> bytes:
        return self._writer.sign_of_life(SoFar(self._work.model, self._work.prompt_tokens))

    async def _receive(self, deadline: float) -> list[Event] | None:
        """The next events, or None when the deadline came first."""
        with trio.CancelScope(deadline=deadline):
            return await self._work.receive()
        return None

    def _take(self, event: Event) -> None:
        if isinstance(event, Accepted) and self.accepted is None:
            self.accepted = event
        if isinstance(event, Failed):
            event = Failed(self._record(event.error))
        self._ended = isinstance(event, Finished | Failed)
        try:
            self._ready += self._writer.feed(event)
        except Exception:
            # The status line is out: a fault of ours can only be told in the stream.
            logger.exception("an event could not be written")
            failure = Failed(self._record(ErrorInfo(Code.INTERNAL_ERROR, "")))
            self._ready += self._writer.feed(failure)
            self._ended = True


async def stream_answer(
    exchange: Exchange,
    asked: Asked,
    *,
    writer: StreamWriter | None = None,
    settle: Callable[[], Awaitable[None]] | None = None,
) -> Response:
    """Run a request as an event stream. Raises `RequestError` before the stream commits.

    A `writer` is the protocol's own unless its caller has one; `settle` is what must be done
    before the client learns of the end.
    """
    runtime = exchange.edge.runtime
    work = await exchange.scopes.enter_async_context(open_work(runtime, asked.requests))
    exchange.work, exchange.response_id = work, asked.response_id
    body = EventStream(
        work,
        writer if writer is not None else asked.stream(),
        silence_seconds=runtime.settings.keepalive_s or math.inf,
        record=exchange.record,
        ended=exchange.tell_ended,
        settle=settle,
    )
    await body.first_output()
    response = Response(body, content_type=CONTENT_TYPE, headers=HEADERS)
    if body.accepted is not None and body.accepted.warnings:
        response.headers["Warning"] = warning_header(body.accepted.warnings)
    return response


async def whole_answer(exchange: Exchange, asked: Answerable) -> Response:
    """Run a request to its end and answer at once. Raises `RequestError`."""
    async with open_work(exchange.edge.runtime, asked.requests) as work:
        exchange.work, exchange.response_id = work, asked.response_id
        events = await work.receive_all()
    response = exchange.json(asked.complete(events))
    if warnings := warnings_of(events):
        response.headers["Warning"] = warning_header(warnings)
    return response
