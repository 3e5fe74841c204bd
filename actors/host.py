"""The requests' side of one model: a seat for each ticket, and the one place that routes to it.

A host outlives what runs behind it. The Model actor may run in this process or in another; when
it dies, the host gives each of its streams exactly one error and frees their seats.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import trio

from headrace.actors.books import BookNews, Opened, Used, Weighed
from headrace.actors.messages import (
    Cancel,
    Decoding,
    Delivery,
    Ended,
    Figures,
    Outgoing,
    Prepared,
    Refused,
    Submit,
    Ticket,
    ToModel,
    preparation,
)
from headrace.actors.reports import DecodeReport
from headrace.actors.spec import ModelSpec
from headrace.runtime.cleanup import bounded_cleanup
from headrace.runtime.contracts import Event, Failed, ModelInfo, Request
from headrace.runtime.errors import Code, ErrorInfo, RequestError
from headrace.runtime.process import WorkerExit
from headrace.runtime.reply import Reply
from headrace.runtime.trace import Trace


class Seat:
    """One ticket's place at a model. `on_event` takes its events; it must not wait or raise."""

    def __init__(
        self, ticket: Ticket, tell: Callable[[ToModel], None], on_event: Callable[[Event], None]
    ) -> None:
        self.ticket = ticket
        self.decoding = False
        self.sampled_tokens = 0
        self._tell = tell
        self._on_event = on_event
        self._prepared: Reply[Prepared] = Reply()
        self._known = False
        self._ended = trio.Event()

    async def prepare(self, request: Request) -> Prepared:
        """Build the prompt. Raises `RequestError`."""
        self._known = True
        self._tell(preparation(self.ticket, request))
        return await self._prepared.wait()

    def submit(self, max_tokens: int, *, low: bool = False) -> None:
        self._tell(Submit(self.ticket, max_tokens, low))

    async def wait_ended(self) -> None:
        """Until nothing of the ticket is left in the model."""
        await self._ended.wait()

    def take(self, item: Outgoing) -> None:
        match item:
            case Prepared():
                self._prepared.set(item)
            case Refused(error):
                self._prepared.fail(RequestError.of(error))
            case Decoding():
                self.decoding = True
            case Ended(sampled_tokens):
                self.sampled_tokens = sampled_tokens
                self._ended.set()
            case _:
                self._on_event(item)

    def fail(self, error: ErrorInfo) -> None:
        """The model is gone: whatever the seat waits for has ended."""
        self._prepared.fail(RequestError.of(error))
        self._on_event(Failed(error))
        self._ended.set()

    def evict(self, error: ErrorInfo) -> None:
        """The model is to go without this request: it ends with `error`, then its row leaves."""
        self._prepared.fail(RequestError.of(error))
        self._on_event(Failed(error))
        self.leave()

    def leave(self) -> None:
        """Ask for the end if it has not come."""
        if self._known and not self._ended.is_set():
            self._tell(Cancel(self.ticket))

    @property
    def gone(self) -> bool:
        return self._ended.is_set() or not self._known


@attrs.frozen
class Totals:
    """Counters of one model over all its lives."""

    submitted_rows: int = 0
    finished_rows: int = 0
    cancelled_rows: int = 0
    decoded_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    cache_hits: int = 0
    cache_misses: int = 0

    def __add__(self, other: Totals | Figures) -> Totals:
        names = [field.name for field in attrs.fields(Totals)]
        return Totals(*(getattr(self, name) + getattr(other, name) for name in names))


def _unnoted(news: BookNews) -> None:
    """There are no books."""


class Host:
    """Seats of one model. `tell` reaches its Model actor while `info` is set.

    `end_seconds` bounds the wait for a row's end; it is longer than the watchdog's limit, so
    that a hung engine is found dead by its own watchdog first. `on_measured` is told the bytes of
    the model without its rows whenever they were measured anew, `note` what goes into the books.
    """

    def __init__(
        self,
        spec: ModelSpec,
        trace: Trace,
        *,
        end_seconds: float,
        on_measured: Callable[[str, int], None],
        note: Callable[[BookNews], None] = _unnoted,
    ) -> None:
        self.id = spec.id
        self.expected = spec.expected
        self.role = spec.role
        self.info: ModelInfo | None = None
        self.figures = Figures()
        # Of the worker process that runs the model, or ran it last.
        self.pid: int | None = None
        self.last_exit: WorkerExit | None = None
        # Lives that began after a death.
        self.restarts = 0
        # Of a row that was alone.
        self.decoding: DecodeReport | None = None
        self._trace = trace
        self._end_seconds = end_seconds
        self._on_measured = on_measured
        self._note = note
        self._seats: dict[Ticket, Seat] = {}
        self._tell: Callable[[ToModel], None] = _nobody
        self._past = Totals()
        # What is said to those who come when the model has gone.
        self._parting = ErrorInfo(Code.ENGINE_UNAVAILABLE, "The model's engine is not running.")

    def open(self, info: ModelInfo, tell: Callable[[ToModel], None]) -> None:
        """The model is ready for requests."""
        self.info, self._tell = info, tell
        self._note(Opened(self.id, info, tell))

    def close(self, error: ErrorInfo) -> None:
        """The model is gone, with everything in it. Each seat that is left hears of it once."""
        self.info, self._tell, self.pid = None, _nobody, None
        self._past, self.figures = self.totals(), Figures()
        self._parting = error
        for seat in self._seats.values():
            seat.fail(error)

    def evict(self, ticket: Ticket, error: ErrorInfo) -> None:
        """End one request with this error; its row leaves at the next step boundary."""
        seat = self._seats.get(ticket)
        if seat is not None:
            seat.evict(error)

    def totals(self) -> Totals:
        return self._past + self.figures

    @asynccontextmanager
    async def seat(self, ticket: Ticket, on_event: Callable[[Event], None]) -> AsyncIterator[Seat]:
        """A seat for one request. When this returns, nothing of it is left in the model."""
        if self.info is None:
            raise RequestError.of(self._parting)
        seat = self._seats[ticket] = Seat(ticket, self._tell, on_event)
        try:
            yield seat
        finally:
            seat.leave()
            if not seat.gone:
                with bounded_cleanup(self._end_seconds):
                    await seat.wait_ended()
            if not seat.gone:
                self._trace.emit("seat.overran", ticket, model=self.id)
            del self._seats[ticket]

    def deliver(self, delivery: Delivery) -> None:
        """Route what one turn of the model brought. Items of tickets that left are dropped."""
        before, self.figures = self.figures, delivery.figures
        figures = delivery.figures
        if figures.use != before.use:
            self._note(Used(self.id, figures.use))
        if figures.model_bytes != before.model_bytes:
            self._on_measured(self.id, figures.model_bytes)
        if figures.memory is not None and figures.memory != before.memory:
            self._note(Weighed(self.id, figures.loose_bytes, figures.memory.active_bytes))
        if figures.step is not None:
            self._note_speed(figures)
            self._trace.emit(
                "step",
                model=self.id,
                kind=figures.step,
                rows=figures.step_rows,
                tokens=figures.step_tokens,
                seconds=figures.step_seconds,
            )
        for ticket, item in delivery.items:
            seat = self._seats.get(ticket)
            if seat is not None:
                seat.take(item)

    def _note_speed(self, figures: Figures) -> None:
        if figures.step == "decode" and figures.step_rows == 1 and figures.step_seconds > 0:
            rate = 1 / figures.step_seconds
            if self.decoding is not None:
                rate = 0.9 * self.decoding.tokens_per_second + 0.1 * rate
            self.decoding = DecodeReport(rate, trio.current_time())

    def __repr__(self) -> str:
        state = "open" if self.info is not None else "closed"
        return f"<Host {self.id} {state} | {len(self._seats)} seats>"


def _nobody(message: ToModel) -> None:
    """Messages to a model that is gone: its seats have been told already."""
