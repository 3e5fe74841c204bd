"""One live request: what its client holds, and what the runtime knows of it."""

from __future__ import annotations

import math
from typing import Any, get_args

import trio

from headrace.actors.host import Seat
from headrace.actors.messages import Ticket
from headrace.actors.reports import RequestReport
from headrace.actors.together import Part
from headrace.runtime.contracts import (
    Accepted,
    CallArguments,
    CancelReason,
    Delta,
    End,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    Request,
    Stage,
)
from headrace.runtime.errors import Code, ErrorInfo
from headrace.runtime.sink import StreamSink
from headrace.runtime.trace import Trace

CANCEL_REASONS: tuple[CancelReason, ...] = get_args(CancelReason)
CANCELLED = ErrorInfo(Code.REQUEST_CANCELLED, "The request was cancelled.")


class Generation:
    """The events of one request, in order: Accepted, then Delta, then one Finished or Failed.

    A refusal is a Failed that comes first. Iterating gives the same events as `receive`.
    """

    def __init__(
        self,
        ticket: Ticket,
        request: Request,
        part: Part,
        stall_seconds: float,
        trace: Trace,
    ) -> None:
        self.ticket = ticket
        self.request = request
        # Its share of what its client asked for.
        self.part = part
        self.model: str | None = request.model
        self.stage: Stage = "queued"
        self.began = trio.current_time()
        self.cancelled: CancelReason | None = None
        self._cancelled_at = 0.0
        self.prompt_tokens = 0
        self.reasoning_tokens = 0
        self.generated_tokens = 0
        # Of each of its rows; known when it is admitted.
        self._most_tokens: int | None = None
        # Set when the stages have given back everything they held.
        self.released = trio.Event()
        # Cancelling it ends the stages, wherever they are.
        self.scope = trio.CancelScope()
        # Its deadline runs while something has been waiting to be read.
        self.stall = trio.CancelScope()
        self._stall_seconds = stall_seconds
        self._seat: Seat | None = None
        self._sink = StreamSink()
        self._trace = trace
        self._last_text: float | None = None

    async def receive(self) -> Event:
        """The next event; `trio.EndOfChannel` after the end. Cutting it short loses nothing."""
        event = await self._sink.receive()
        self._mind_stall()
        return event

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> Event:
        try:
            return await self.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    def cancel(self, reason: CancelReason = "api") -> None:
        """End the request now, wherever it is; its reader gets Failed (request_cancelled)."""
        self.end_with(Failed(CANCELLED), reason)

    def end_with(self, end: End, reason: CancelReason) -> None:
        """End the request from outside with an end of the caller's choice."""
        if self._sink.end is None:
            self.cancelled = reason
            self._cancelled_at = trio.current_time()
            self._sink.put(end)
        self.scope.cancel()

    @property
    def end(self) -> End | None:
        """The request's end, once it is known; its reader may not have come to it yet."""
        return self._sink.end

    def enter(self, stage: Stage) -> None:
        """It holds what is needed before this stage, and waits for what belongs to it."""
        self.stage = stage
        self._emit("request.stage", stage=stage)

    def admitted(self, seat: Seat, event: Accepted) -> None:
        """All checks have passed; the row is about to join the batch."""
        self._seat = seat
        self.stage = "prefilling"
        self._trace.emit(
            "request.admitted",
            self.ticket,
            model=event.model,
            prompt_tokens=event.prompt_tokens,
            queue_seconds=trio.current_time() - self.began,
        )
        self.put(event)

    def put(self, event: Event) -> None:
        """Take an event from the runtime, for the reader."""
        match event:
            case Accepted():
                self.prompt_tokens = event.prompt_tokens
                self._most_tokens = event.max_tokens
            case Delta() | ReasoningDelta() | CallArguments():
                self.generated_tokens += event.tokens
                if isinstance(event, ReasoningDelta):
                    self.reasoning_tokens += event.tokens
                self._trace_text()
            case Finished():
                self.generated_tokens = event.usage.completion_tokens
                self.reasoning_tokens = event.usage.reasoning_tokens
        self._sink.put(event)
        self._mind_stall()

    def _mind_stall(self) -> None:
        since = self._sink.unread_since
        self.stall.deadline = math.inf if since is None else since + self._stall_seconds

    def _trace_text(self) -> None:
        now = trio.current_time()
        if self._last_text is None:
            self._emit("request.first_text", seconds=now - self.began)
        else:
            self._emit("request.text_gap", seconds=now - self._last_text)
        self._last_text = now

    def release(self) -> None:
        """Everything that the request held has been given back."""
        self.stage = "ended"
        if self.cancelled is not None:
            seconds = trio.current_time() - self._cancelled_at
            self._emit("row.removed", reason=self.cancelled, seconds=seconds)
        self.released.set()

    def trace_end(self) -> None:
        """The scope is left: say how the request ended."""
        end = self.end
        code = end.error.code.value if isinstance(end, Failed) else None
        self._emit(
            "request.ended",
            outcome=self._outcome(code),
            code=code,
            reason=self.cancelled,
            seconds=trio.current_time() - self.began,
            completion_tokens=self.generated_tokens,
            reasoning_tokens=self.reasoning_tokens,
        )

    def _emit(self, name: str, **fields: Any) -> None:
        self._trace.emit(name, self.ticket, model=self.model, **fields)

    def _outcome(self, code: str | None) -> str:
        if code is None:
            return "ok"
        if self.cancelled is not None:
            return "cancelled"
        return "error" if self._seat is not None else "refused"

    def report(self) -> RequestReport:
        stage: Stage = self.stage
        if stage == "prefilling" and self._seat is not None and self._seat.decoding:
            stage = "decoding"
        return RequestReport(
            self.request.id,
            self.request.route,
            self.model,
            stage,
            trio.current_time() - self.began,
            self.prompt_tokens,
            self.generated_tokens,
            self.request.stream,
            self.ticket,
            self.request.n,
            self._most_tokens,
        )

    def __repr__(self) -> str:
        return f"<Generation {self.ticket} {self.stage} of {self.model}>"
