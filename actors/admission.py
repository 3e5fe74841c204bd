"""The admission stage: may this request run, how far, and when.

A request takes its place on arrival, shows its prompt's length, and gets a plan when a row is
free. The plan can be used once; what it stands for is given back by leaving the place.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import TypeAlias

import attrs
import trio

from headrace.actors.books import BookNews, Books, Closed, Load, Opened, Used, Weighed
from headrace.actors.fit import least_bytes, safe_context
from headrace.actors.gate import Gate, Wish
from headrace.actors.ledger import Ledger, LedgerReport
from headrace.actors.messages import Ticket
from headrace.actors.room import Room, memory_limit, token_room
from headrace.actors.waitlist import Waitlist
from headrace.actors.whole_device import WholeDevice
from headrace.runtime.actor import Actor
from headrace.runtime.contracts import ModelInfo, Warning_
from headrace.runtime.errors import ActorDied, Code, RequestError
from headrace.runtime.reply import Reply
from headrace.runtime.trace import Trace

# More than there are requests: with it those of low priority count as the last that came.
LATER = 1 << 62


class Plan:
    """Leave to run one row. Opaque to its holder but for what the client must be told."""

    def __init__(self, ticket: Ticket, max_tokens: int, warnings: tuple[Warning_, ...]) -> None:
        self.ticket = ticket
        self.warnings = warnings
        self._max_tokens = max_tokens
        self._taken = False

    @property
    def max_tokens(self) -> int:
        return self._max_tokens

    def take(self) -> int:
        """Use the plan: the cap on the row's tokens. A second use is a bug and raises."""
        if self._taken:
            raise RuntimeError(f"the plan of {self.ticket} was used twice")
        self._taken = True
        return self._max_tokens


@attrs.frozen
class _Enter:
    ticket: Ticket
    model_id: str
    group: Hashable
    reply: Reply[None]


@attrs.frozen
class _Admit:
    ticket: Ticket
    info: ModelInfo
    prompt_tokens: int
    wanted: int | None
    rows: int
    late: bool
    low: bool
    reply: Reply[Plan]


@attrs.frozen
class _Leave:
    ticket: Ticket
    reply: Reply[None]


@attrs.frozen
class _Hold:
    """Somebody wants the whole device; the reply itself stands for who."""

    reply: Reply[None]


@attrs.frozen
class _LetGo:
    hold: Reply[None]
    reply: Reply[None]


@attrs.frozen
class CloseToNew:
    """From now on newcomers are refused with `code`; None opens the stage again."""

    code: Code | None


_Message: TypeAlias = _Enter | _Admit | _Leave | _Hold | _LetGo | CloseToNew | BookNews


class Place:
    """A request's hold on the admission stage of one model."""

    def __init__(self, admission: Admission, ticket: Ticket) -> None:
        self._admission = admission
        self._ticket = ticket

    def check(self, info: ModelInfo, prompt_tokens: int, wanted: int | None, rows: int = 1) -> None:
        """Whether the prompt leaves room, before anything is waited for. Raises `RequestError`."""
        self._admission.room(info, prompt_tokens, wanted, rows)

    async def admit(
        self,
        info: ModelInfo,
        prompt_tokens: int,
        wanted: int | None,
        rows: int = 1,
        *,
        late: bool = False,
        low: bool = False,
    ) -> Plan:
        """Wait for the rows. Raises `RequestError` at once when the prompt leaves no room. A `late`
        request stands behind all that have come, one of `low` priority behind all others."""
        reply: Reply[Plan] = Reply()
        message = _Admit(self._ticket, info, prompt_tokens, wanted, rows, late, low, reply)
        return await self._admission.ref.ask(message, reply)


class Admission(Actor[_Message]):
    """Owns the waiting list of each model, and the books of the machine's memory.

    `memory_bytes` is for all models, their rows and kept prefixes together, None for no limit;
    `chunk_tokens` is the longest prefill chunk.
    """

    def __init__(
        self,
        max_rows: int,
        queue_limit: int,
        trace: Trace,
        *,
        memory_bytes: int | None = None,
        chunk_tokens: int = 1,
    ) -> None:
        super().__init__("admission")
        self._chunk_tokens = chunk_tokens
        self._books = Books(Ledger(memory_bytes), trace)
        self._gate = Gate(self._books.ledger, chunk_tokens)
        self._device = WholeDevice()
        self._numbers = itertools.count()
        self._max_rows = max_rows
        self._queue_limit = queue_limit
        self._trace = trace
        self._waitlists: dict[str, Waitlist] = {}
        self._model_of: dict[Ticket, str] = {}
        self._pending: dict[Ticket, tuple[Reply[Plan], Plan]] = {}
        self._closed: Code | None = None

    @asynccontextmanager
    async def place(
        self, ticket: Ticket, model_id: str, group: Hashable = None
    ) -> AsyncIterator[Place]:
        """A place for one request; given back on the way out, whatever was granted meanwhile.
        Tickets of one `group` share theirs.

        Raises `RequestError`: queue_full with a time to try again, or draining.
        """
        reply: Reply[None] = Reply()
        try:
            await self.ref.ask(_Enter(ticket, model_id, group, reply), reply)
            yield Place(self, ticket)
        finally:
            done: Reply[None] = Reply()
            await self.ref.conclude(_Leave(ticket, done), done)

    def handle(self, message: _Message) -> None:
        match message:
            case _Enter():
                self._on_enter(message)
            case _Admit():
                self._on_admit(message)
            case _Leave():
                self._on_leave(message.ticket)
                message.reply.set(None)
            case _Hold(reply):
                self._device.want(reply)
                self._let_hold()
            case _LetGo(hold, reply):
                self._on_let_go(hold)
                reply.set(None)
            case CloseToNew(code):
                self._closed = code
            case Load() | Opened() | Used() | Weighed() | Closed():
                self._books.take(message)
                self._retry()

    def abandon(self) -> None:
        self._books.abandon(ActorDied(self.name))
        holds = [hold for hold in self._device.all() if isinstance(hold, Reply)]
        for reply in (*holds, *(reply for reply, _ in self._pending.values())):
            reply.fail(ActorDied(self.name))

    def _on_enter(self, message: _Enter) -> None:
        if self._closed is not None:
            error = RequestError(
                self._closed, "The server is shutting down.", retry_after_seconds=5.0
            )
            message.reply.fail(error)
            return
        waitlist = self._waitlist(message.model_id)
        if waitlist.enter(message.ticket, trio.current_time(), message.group):
            self._model_of[message.ticket] = message.model_id
            message.reply.set(None)
            return
        wait_seconds = waitlist.refuse(trio.current_time())
        limit = f"{self._max_rows} running and {self._queue_limit} waiting"
        text = f"The model is busy: all {limit} places are taken."
        message.reply.fail(RequestError(Code.QUEUE_FULL, text, retry_after_seconds=wait_seconds))

    def _on_admit(self, message: _Admit) -> None:
        model_id = self._model_of.get(message.ticket)
        if model_id is None:  # left meanwhile
            return
        try:
            room = self.room(message.info, message.prompt_tokens, message.wanted, message.rows)
        except RequestError as error:
            message.reply.fail(error)
            return
        plan = Plan(message.ticket, room.max_tokens, room.warnings)
        self._pending[message.ticket] = (message.reply, plan)
        waitlist = self._waitlist(model_id)
        now, rows = trio.current_time(), message.rows
        self._gate.line_up(message.ticket, self._wish(model_id, message))
        self._grant(waitlist.line_up(message.ticket, now, rows, late=message.late, low=message.low))

    def _on_leave(self, ticket: Ticket) -> None:
        self._pending.pop(ticket, None)
        self._gate.leave(ticket)
        model_id = self._model_of.pop(ticket, None)
        if model_id is not None:
            self._grant(self._waitlist(model_id).leave(ticket, trio.current_time()))
            self._retry()
            self._let_hold()

    def _retry(self) -> None:
        """Memory may have become free for those who wait for it."""
        for model_id in self._gate.retry_order():
            self._grant(self._waitlist(model_id).retry(trio.current_time()))

    def _wish(self, model_id: str, message: _Admit) -> Wish:
        number = next(self._numbers) + LATER * message.low
        tokens = message.prompt_tokens + 1
        return Wish(model_id, number, message.info.footprint, tokens, message.rows)

    def _grant(self, tickets: list[Ticket]) -> None:
        for ticket in tickets:
            reply, plan = self._pending.pop(ticket)
            reply.set(plan)

    def _waitlist(self, model_id: str) -> Waitlist:
        if model_id not in self._waitlists:
            self._waitlists[model_id] = Waitlist(self._max_rows, self._queue_limit, self._let_run)
        return self._waitlists[model_id]

    # ---- the whole device --------------------------------------------------------------------

    @asynccontextmanager
    async def whole_device(self) -> AsyncIterator[None]:
        """The device without any row on it: waits for those that run, and lets none begin until
        it is left."""
        hold: Reply[None] = Reply()
        try:
            await self.ref.ask(_Hold(hold), hold)
            yield
        finally:
            done: Reply[None] = Reply()
            await self.ref.conclude(_LetGo(hold, done), done)

    def _let_run(self, ticket: Ticket) -> bool:
        return not self._device.wanted and self._gate.let_run(ticket)

    def _let_hold(self) -> None:
        running = sum(w.statistics().running for w in self._waitlists.values())
        hold = self._device.grant(running)
        if isinstance(hold, Reply):
            hold.set(None)

    def _on_let_go(self, hold: Reply[None]) -> None:
        self._device.leave(hold)
        self._let_hold()
        if not self._device.wanted:
            for waitlist in self._waitlists.values():
                self._grant(waitlist.retry(trio.current_time()))

    # ---- memory ------------------------------------------------------------------------------

    @asynccontextmanager
    async def weights(self, model_id: str, count_bytes: int) -> AsyncIterator[None]:
        """Room for a model's weights, from before its load until its memory is free."""
        reply: Reply[None] = Reply()
        try:
            await self.ref.ask(Load(model_id, count_bytes, reply), reply)
            yield
        finally:
            done: Reply[None] = Reply()
            await self.ref.conclude(Closed(model_id, done), done)

    def note(self, news: BookNews) -> None:
        self.ref.tell(news)

    def room(self, info: ModelInfo, prompt_tokens: int, wanted: int | None, rows: int) -> Room:
        """How far a prompt may go, by the model's window and by memory. Raises `RequestError`."""
        available_bytes = self._books.ledger.lone_bytes(info.weights_bytes)
        memory = memory_limit(info, available_bytes, self._chunk_tokens, prompt_tokens, rows)
        return token_room(info.context_window, prompt_tokens, wanted, memory)

    def check_fits(self, info: ModelInfo) -> None:
        """Raises `RequestError` (does-not-fit) for a model that could not hold a short context."""
        needed = least_bytes(info, self._chunk_tokens)
        available = self._books.ledger.lone_bytes(0)
        if needed > available:
            raise RequestError(
                Code.DOES_NOT_FIT,
                f"The model {info.id!r} does not fit: {needed} bytes are needed for it and a "
                f"short context, and {available} may be used.",
                param="model",
                details={"needed_bytes": needed, "available_bytes": available},
            )

    def safe_context(self, info: ModelInfo) -> int:
        """The longest context for which there is memory when nobody else uses any."""
        return safe_context(info, self._books.ledger.lone_bytes(0), self._chunk_tokens)

    def ledger(self) -> LedgerReport:
        return self._books.ledger.snapshot()

    @property
    def tickets(self) -> int:
        """Places that are taken; 0 at rest."""
        return len(self._model_of)

    def retry_after_seconds(self, model_id: str) -> float:
        return self._waitlist(model_id).retry_after_seconds(trio.current_time())

    def waiting(self, model_id: str) -> int:
        waitlist = self._waitlists.get(model_id)
        return 0 if waitlist is None else waitlist.statistics().waiting

    def queue_depth(self) -> int:
        return sum(waitlist.statistics().waiting for waitlist in self._waitlists.values())
