"""The admission stage: may this request run, how far, and when.

A request takes its place on arrival, shows its prompt's length, and gets a plan when a row is
free. The plan can be used once; what it stands for is given back by leaving the place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import TypeAlias

import attrs
import trio

from headrace.actors.messages import Ticket
from headrace.actors.room import token_room
from headrace.actors.waitlist import Waitlist
from headrace.runtime.actor import Actor
from headrace.runtime.contracts import ModelInfo, Warning_
from headrace.runtime.errors import ActorDied, Code, RequestError
from headrace.runtime.reply import Reply
from headrace.runtime.trace import Trace


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
    reply: Reply[Plan]


@attrs.frozen
class _Leave:
    ticket: Ticket
    reply: Reply[None]


@attrs.frozen
class CloseToNew:
    """From now on newcomers are refused with `code`; None opens the stage again."""

    code: Code | None


_Message: TypeAlias = _Enter | _Admit | _Leave | CloseToNew


class Place:
    """A request's hold on the admission stage of one model."""

    def __init__(self, admission: Admission, ticket: Ticket) -> None:
        self._admission = admission
        self._ticket = ticket

    def check(self, info: ModelInfo, prompt_tokens: int, wanted: int | None) -> None:
        """Whether the prompt leaves room, before anything is waited for. Raises `RequestError`."""
        token_room(info.context_window, prompt_tokens, wanted)

    async def admit(
        self,
        info: ModelInfo,
        prompt_tokens: int,
        wanted: int | None,
        rows: int = 1,
        *,
        late: bool = False,
    ) -> Plan:
        """Wait for the rows. Raises `RequestError` at once when the prompt leaves no room. A `late`
        request stands behind all that have come."""
        reply: Reply[Plan] = Reply()
        message = _Admit(self._ticket, info, prompt_tokens, wanted, rows, late, reply)
        return await self._admission.ref.ask(message, reply)


class Admission(Actor[_Message]):
    """Owns the waiting list of each model."""

    def __init__(self, max_rows: int, queue_limit: int, trace: Trace) -> None:
        super().__init__("admission")
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
            case CloseToNew(code):
                self._closed = code

    def abandon(self) -> None:
        for reply, _ in self._pending.values():
            reply.fail(ActorDied(self.name))

    def _on_enter(self, message: _Enter) -> None:
        if self._closed is not None:
            error = RequestError(
                self._closed, "The server is shutting down.", retry_after_seconds=5.0
            )
            message.reply.fail(error)
            return
        waitlist = self._waitlist(message.model_id)
        if waitlist.enter(message.ticket, message.group):
            self._model_of[message.ticket] = message.model_id
            message.reply.set(None)
            return
        wait_seconds = waitlist.retry_after_seconds(trio.current_time())
        limit = f"{self._max_rows} running and {self._queue_limit} waiting"
        text = f"The model is busy: all {limit} places are taken."
        message.reply.fail(RequestError(Code.QUEUE_FULL, text, retry_after_seconds=wait_seconds))

    def _on_admit(self, message: _Admit) -> None:
        model_id = self._model_of.get(message.ticket)
        if model_id is None:  # left meanwhile
            return
        try:
            room = token_room(message.info.context_window, message.prompt_tokens, message.wanted)
        except RequestError as error:
            message.reply.fail(error)
            return
        plan = Plan(message.ticket, room.max_tokens, room.warnings)
        self._pending[message.ticket] = (message.reply, plan)
        waitlist = self._waitlist(model_id)
        now, rows = trio.current_time(), message.rows
        self._grant(waitlist.line_up(message.ticket, now, rows, late=message.late))

    def _on_leave(self, ticket: Ticket) -> None:
        self._pending.pop(ticket, None)
        model_id = self._model_of.pop(ticket, None)
        if model_id is not None:
            self._grant(self._waitlist(model_id).leave(ticket, trio.current_time()))

    def _grant(self, tickets: list[Ticket]) -> None:
        for ticket in tickets:
            reply, plan = self._pending.pop(ticket)
            reply.set(plan)

    def _waitlist(self, model_id: str) -> Waitlist:
        if model_id not in self._waitlists:
            self._waitlists[model_id] = Waitlist(self._max_rows, self._queue_limit)
        return self._waitlists[model_id]

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
