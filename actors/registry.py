"""The lease registry: it owns which models are resident, and carries out what residency decides.

`Residency` is the pure part. Here each decision becomes the start or the end of a model's life, or
the answer to a waiting request; and what becomes of the lives is told back as messages.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

import attrs
import trio

from headrace.actors.books import Treasury
from headrace.actors.catalogue import Shelf
from headrace.actors.census import model_report
from headrace.actors.host import Host, Totals
from headrace.actors.lease import Lease
from headrace.actors.life import gone
from headrace.actors.lives import Died, LifeNews, Lives, Loaded, LoadFailed, Runner, Unloaded
from headrace.actors.messages import Ticket
from headrace.actors.reports import ModelReport
from headrace.actors.residence import Action, Cancel, Fail, Grant, Load, Unload
from headrace.actors.residency import Residency
from headrace.actors.routing import Names, Route, only_companion, route
from headrace.actors.spec import ModelSpec
from headrace.runtime.actor import Actor
from headrace.runtime.contracts import ModelInfo
from headrace.runtime.errors import ActorDied, Code, ErrorInfo, RequestError
from headrace.runtime.reply import Reply
from headrace.runtime.restart import RestartBudget
from headrace.runtime.trace import Trace


@attrs.frozen
class _Acquire:
    ticket: Ticket
    model_id: str
    # Asked for by hand: a model that died too often is tried again.
    by_hand: bool
    reply: Reply[Lease]


@attrs.frozen
class _Release:
    ticket: Ticket
    reply: Reply[None]


@attrs.frozen
class _Unload:
    model_id: str
    force: bool
    reply: Reply[None]


@attrs.frozen
class _Pin:
    model_id: str
    pinned: bool
    reply: Reply[None]


@attrs.frozen
class _Measured:
    model_id: str
    bytes: int


@attrs.frozen
class _Idle:
    """Time to look for models that nobody has used for long."""


@attrs.frozen
class _Found:
    shelf: Shelf
    reply: Reply[None]


@attrs.frozen
class NoMoreLeases:
    """The runtime is about to end: nobody gets a lease any more, and no model starts again."""


_Message: TypeAlias = (
    _Acquire | _Release | _Unload | _Pin | _Measured | _Idle | _Found | NoMoreLeases | LifeNews
)


class Registry(Actor[_Message]):
    """`specs` are the models that can be asked for; the first is current until another is named.

    `end_seconds` bounds how long a request waits for its row's end; `idle_seconds` is after how
    long an unused model is unloaded, 0 for never.
    """

    def __init__(
        self,
        specs: Sequence[ModelSpec],
        names: Names,
        run_model: Runner,
        books: Treasury,
        *,
        budget_bytes: int,
        restarts: Callable[[], RestartBudget],
        end_seconds: float,
        idle_seconds: float,
        trace: Trace,
    ) -> None:
        super().__init__("registry")
        self._specs = {spec.id: spec for spec in specs}
        self._names = names
        self._exact = Names(aliases=(), places=names.places)
        self._residency = Residency(budget_bytes)
        self._idle_seconds = idle_seconds
        self._trace = trace
        self._new_host = partial(
            Host,
            trace=trace,
            end_seconds=end_seconds,
            on_measured=self._on_measured,
            note=books.note,
        )
        self._hosts = {spec.id: self._new_host(spec) for spec in specs}
        self._lives = Lives(self._hosts, run_model, self.ref.tell, books, trace)
        self._new_budget = restarts
        self._restarts = {spec.id: restarts() for spec in specs}
        # What the next start of a model that died has to wait, in seconds.
        self._delays: dict[str, float] = {}
        self._replies: dict[Ticket, Reply[Lease]] = {}
        # Granted on a model whose death is not known yet: ticket and model.
        self._stranded: list[tuple[Ticket, str]] = []
        # Who waits for a model's memory to be free, by model.
        self._leavers: dict[str, list[Reply[None]]] = {}
        self._load_numbers = itertools.count(1)
        self._closing = False
        primaries = (spec.id for spec in specs if spec.role == "primary")
        self.current: str | None = next(primaries, None)

    async def serve(self) -> None:
        """Run until cancelled; the models end with it."""
        async with trio.open_nursery() as self._nursery:
            if self._idle_seconds > 0:
                self._nursery.start_soon(self._watch_idle, name="idle models")
            await super().serve()

    # ---- what others call ------------------------------------------------------------------

    def resolve(self, name: str | None, *, companions: bool = False) -> Route:
        """The model that answers for a name. Raises `RequestError`: as `routing.route`, and
        unsupported_capability for a companion where a primary model is needed."""
        current = self.current or (only_companion(self._specs) if companions else None)
        found = route(name, self._names, self._specs, current)
        if not companions:
            self.check_primary(found.model_id)
        return found

    def known(self, model_id: str) -> ModelInfo | None:
        """What is known of a model, by its files if it is not loaded."""
        host = self._hosts[model_id]
        return host.info or host.expected

    def find(self, model_id: str) -> str:
        """The model with this id or place, by no alias. Raises `RequestError` (model_not_found)."""
        return route(model_id, self._exact, self._specs, None).model_id

    def check_primary(self, model_id: str) -> None:
        """Raises `RequestError` (unsupported_capability) for a companion."""
        if self._specs[model_id].role != "primary":
            text = f"The model {model_id!r} does not generate text."
            raise RequestError(Code.UNSUPPORTED_CAPABILITY, text, param="model")

    @property
    def budget_bytes(self) -> int:
        return self._residency.snapshot().budget_bytes

    @asynccontextmanager
    async def lease(
        self, ticket: Ticket, model_id: str, *, by_hand: bool = False
    ) -> AsyncIterator[Lease]:
        """Hold a model, loading it first if need be. Raises `RequestError`, `ActorDied`.

        The ticket is the holder's own, so one that leaves at any point, before the grant or
        after it, leaves nothing behind.
        """
        reply: Reply[Lease] = Reply()
        try:
            yield await self.ref.ask(_Acquire(ticket, model_id, by_hand, reply), reply)
        finally:
            done: Reply[None] = Reply()
            await self.ref.conclude(_Release(ticket, done), done)

    async def load(self, model_id: str) -> None:
        """Make a model resident, by hand. Raises `RequestError`, `ActorDied`."""
        async with self.lease(f"load{next(self._load_numbers)}", model_id, by_hand=True):
            pass

    async def unload(self, model_id: str, *, force: bool = False) -> None:
        """Free a model's memory, by hand. Raises `RequestError` (in-use) unless forced."""
        reply: Reply[None] = Reply()
        await self.ref.ask(_Unload(model_id, force, reply), reply)

    async def pin(self, model_id: str, *, pinned: bool = True) -> None:
        """Keep a model once it is in memory, or no longer. Raises `ActorDied`."""
        reply: Reply[None] = Reply()
        await self.ref.ask(_Pin(model_id, pinned, reply), reply)

    async def admit(self, shelf: Shelf) -> None:
        """Let further models be asked for. Raises `ActorDied`."""
        reply: Reply[None] = Reply()
        await self.ref.ask(_Found(shelf, reply), reply)

    @property
    def ids(self) -> frozenset[str]:
        """Of every model that can be asked for."""
        return frozenset(self._specs)

    # ---- messages --------------------------------------------------------------------------

    def handle(self, message: _Message) -> None:
        self._carry_out(self._decide(message, trio.current_time()))

    def _decide(self, message: _Message, now: float) -> list[Action]:
        match message:
            case _Acquire():
                return self._on_acquire(message, now)
            case _Release(ticket, reply):
                self._replies.pop(ticket, None)
                reply.set(None)
                return self._residency.release(ticket, now)
            case _Unload():
                return self._on_unload(message, now)
            case _Pin(model_id, pinned, reply):
                reply.set(None)
                order = self._residency.pin if pinned else self._residency.unpin
                return order(model_id, now)
            case _Measured(model_id, measured_bytes):
                return self._residency.measured(model_id, measured_bytes, now)
            case _Idle():
                return self._residency.idle(now, self._idle_seconds)
            case _Found(shelf, reply):
                reply.set(None)
                self._on_found(shelf)
                return []
            case NoMoreLeases():
                self._closing = True
                self._residency.close_to_new()
                return []
            case _:
                return self._on_news(message, now)

    def _on_found(self, shelf: Shelf) -> None:
        for spec in shelf.models:
            if spec.id not in self._specs:
                self._specs[spec.id] = spec
                self._hosts[spec.id] = self._new_host(spec)
                self._restarts[spec.id] = self._new_budget()
                self._trace.emit("model.found", model=spec.id)
        places = {**shelf.places, **self._names.places}
        self._names = attrs.evolve(self._names, places=places)
        self._exact = attrs.evolve(self._exact, places=places)

    def _on_acquire(self, message: _Acquire, now: float) -> list[Action]:
        self._replies[message.ticket] = message.reply
        estimate = self._specs[message.model_id].estimate_bytes
        if not message.by_hand:
            return self._residency.acquire(message.ticket, message.model_id, estimate, now)
        self._restarts[message.model_id].reset()
        return self._residency.preload(message.ticket, message.model_id, estimate, now)

    def _on_unload(self, message: _Unload, now: float) -> list[Action]:
        answer, actions = self._residency.unload(message.model_id, now, force=message.force)
        if answer != "in-use":
            self._restarts[message.model_id].reset()
        match answer:
            case "in-use":
                text = f"The model {message.model_id!r} is in use; force unloads it all the same."
                message.reply.fail(RequestError(Code.IN_USE, text))
            case "absent":
                message.reply.set(None)
            case "unloading":
                self._leavers.setdefault(message.model_id, []).append(message.reply)
        return actions

    def _on_news(self, news: LifeNews, now: float) -> list[Action]:
        if not isinstance(news, Loaded):
            for reply in self._leavers.pop(news.model_id, []):
                reply.set(None)
        match news:
            case Loaded(model_id, info, seconds):
                self._trace.emit("model.loaded", model=model_id, seconds=seconds)
                return self._residency.loaded(model_id, info.weights_bytes, now)
            case LoadFailed(model_id, error):
                self._trace.emit("model.load_failed", model=model_id, reason=error.message)
                return self._residency.load_failed(model_id, now, error.message)
            case Unloaded(model_id):
                self._trace.emit("model.evicted", model=model_id)
                return self._residency.unloaded(model_id, now)
            case Died(model_id):
                return self._on_died(model_id, now)

    def _on_died(self, model_id: str, now: float) -> list[Action]:
        delay_seconds = None if self._closing else self._restarts[model_id].died(now)
        self._trace.emit("worker.died", model=model_id, respawn=delay_seconds is not None)
        self._delays[model_id] = delay_seconds or 0.0
        self._hosts[model_id].restarts += delay_seconds is not None
        stranded = [ticket for ticket, where in self._stranded if where == model_id]
        self._stranded = [entry for entry in self._stranded if entry[1] != model_id]
        actions: list[Action] = []
        for ticket in stranded:
            actions += self._residency.release(ticket, now)
        actions += self._residency.died(model_id, now, respawn=delay_seconds is not None)
        for ticket in stranded:
            if ticket in self._replies:  # it may have left meanwhile
                estimate = self._specs[model_id].estimate_bytes
                actions += self._residency.acquire(ticket, model_id, estimate, now)
        return actions

    def abandon(self) -> None:
        for leases in self._replies.values():
            leases.fail(ActorDied(self.name))
        for replies in self._leavers.values():
            for reply in replies:
                reply.fail(ActorDied(self.name))

    # ---- carrying out ----------------------------------------------------------------------

    def _carry_out(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Load(model_id):
                    self._start(model_id)
                case Unload(model_id, reason):
                    self._trace.emit("model.leaving", model=model_id, reason=reason)
                    self._lives.stop(model_id)
                case Grant(ticket, model_id):
                    self._grant(ticket, model_id)
                case Fail(ticket, model_id, code, reason):
                    self._fail(ticket, self._error(model_id, code, reason))
                case Cancel(ticket, model_id, code, reason):
                    self._hosts[model_id].evict(ticket, self._error(model_id, code, reason))

    def _start(self, model_id: str) -> None:
        delay_seconds = self._delays.pop(model_id, 0.0)
        self._lives.start(self._specs[model_id], self._nursery, delay_seconds)

    def _grant(self, ticket: Ticket, model_id: str) -> None:
        reply, host = self._replies.pop(ticket), self._hosts[model_id]
        if host.info is not None:
            reply.set(Lease(ticket, host, host.info))
        else:  # it has just died, and the news is still on its way: the next life is to serve it
            self._replies[ticket] = reply
            self._stranded.append((ticket, model_id))

    def _fail(self, ticket: Ticket, error: ErrorInfo) -> None:
        reply = self._replies.pop(ticket, None)
        if reply is not None:
            reply.fail(RequestError.of(error))

    def _error(self, model_id: str, code: Code, reason: str) -> ErrorInfo:
        if code is Code.ENGINE_UNAVAILABLE:
            exhausted = self._restarts[model_id].exhausted
            return gone(model_id, "exhausted" if exhausted else "restarting")
        return ErrorInfo(code, f"{reason[:1].upper()}{reason[1:].rstrip('.')}.")

    # ---- its own children ------------------------------------------------------------------

    def _on_measured(self, model_id: str, measured_bytes: int) -> None:
        self.ref.tell(_Measured(model_id, measured_bytes))

    async def _watch_idle(self) -> None:
        while True:
            due = self._residency.next_idle(self._idle_seconds)
            now = trio.current_time()
            # Without an idle model none can be due sooner than a whole period from now.
            await trio.sleep(self._idle_seconds if due is None else max(due - now, 0.0))
            self.ref.tell(_Idle())
            await trio.lowlevel.checkpoint()

    # ---- reports ---------------------------------------------------------------------------

    def reports(self, waiting: Callable[[str], int], max_rows: int) -> tuple[ModelReport, ...]:
        """Every model that can be asked for. `waiting` counts the requests that queue for one."""
        known = {residence.id: residence for residence in self._residency.snapshot().models}
        return tuple(
            model_report(host, known.get(host.id), waiting(host.id), max_rows)
            for host in self._hosts.values()
        )

    def totals(self) -> Totals:
        """Counters of all models since the start."""
        return sum((host.totals() for host in self._hosts.values()), start=Totals())

    def __repr__(self) -> str:
        return f"<Registry {self._residency!r} | {self._lives!r}>"
