"""The lease registry: it owns which models are resident, and carries out what residency decides.

`Residency` is the pure part. Here each decision becomes a task that loads and runs a model, the
end of one, or the answer to a waiting request; and what becomes of them is told back as messages.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeAlias

import attrs
import outcome
import trio

from headrace.actors.batch import describe
from headrace.actors.host import Host, Totals
from headrace.actors.lease import Lease
from headrace.actors.local import ModelSpec, Ready
from headrace.actors.messages import Ticket
from headrace.actors.reports import BatchReport, ModelReport
from headrace.actors.residence import Action, Cancel, Fail, Grant, Load, Residence, Unload
from headrace.actors.residency import Residency
from headrace.actors.routing import Names, Route, route
from headrace.runtime.actor import Actor
from headrace.runtime.contracts import ModelInfo
from headrace.runtime.errors import ActorDied, Code, ErrorInfo, RequestError
from headrace.runtime.reply import Reply
from headrace.runtime.restart import RestartBudget
from headrace.runtime.supervisor import contained, leaves
from headrace.runtime.trace import Trace

GONE = ErrorInfo(Code.ENGINE_UNAVAILABLE, "The model's engine stopped.", details={"state": "none"})
CLOSING = ErrorInfo(Code.CLOSED, "The server is closing.", retry_after_seconds=5.0)


class Runner(Protocol):
    """Runs one life of a model, in this process or in a worker."""

    async def __call__(self, spec: ModelSpec, host: Host, ready: Ready) -> ErrorInfo | None:
        """Answers why the model could not be loaded; otherwise runs until cancelled."""


# ---- messages ------------------------------------------------------------------------------


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
class _Loaded:
    model_id: str
    info: ModelInfo
    seconds: float


@attrs.frozen
class _LoadFailed:
    model_id: str
    error: ErrorInfo


@attrs.frozen
class _Unloaded:
    model_id: str


@attrs.frozen
class _Died:
    model_id: str


_Message: TypeAlias = _Acquire | _Release | _Loaded | _LoadFailed | _Unloaded | _Died


@attrs.define(eq=False)
class _Life:
    """One life of a model, from the start of its load. `stop` ends it."""

    stop: trio.CancelScope = attrs.field(factory=trio.CancelScope)


class Registry(Actor[_Message]):
    """`specs` are the models that can be asked for; the first is current until another is named.

    `end_seconds` bounds how long a request waits for its row's end.
    """

    def __init__(
        self,
        specs: Sequence[ModelSpec],
        names: Names,
        run_model: Runner,
        *,
        budget_bytes: int,
        restarts: Callable[[], RestartBudget],
        end_seconds: float,
        trace: Trace,
    ) -> None:
        super().__init__("registry")
        self._specs = {spec.id: spec for spec in specs}
        self._names = names
        self._run_model = run_model
        self._residency = Residency(budget_bytes)
        self._trace = trace
        self._hosts = {spec.id: Host(spec.id, trace, end_seconds=end_seconds) for spec in specs}
        self._restarts = {spec.id: restarts() for spec in specs}
        self._lives: dict[str, _Life] = {}
        self._replies: dict[Ticket, Reply[Lease]] = {}
        self._load_numbers = itertools.count(1)
        self.current: str | None = specs[0].id if specs else None

    async def serve(self) -> None:
        """Run until cancelled; the models end with it."""
        async with trio.open_nursery() as self._nursery:
            await super().serve()

    # ---- what others call ------------------------------------------------------------------

    def resolve(self, name: str | None) -> Route:
        """The model that answers for a name. Raises `RequestError`; see `routing.route`."""
        return route(name, self._names, self._specs, self.current)

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

    # ---- messages --------------------------------------------------------------------------

    def handle(self, message: _Message) -> None:
        now = trio.current_time()
        match message:
            case _Acquire():
                self._carry_out(self._acquire(message, now))
            case _Release(ticket, reply):
                self._replies.pop(ticket, None)
                self._carry_out(self._residency.release(ticket, now))
                reply.set(None)
            case _Loaded(model_id, info, seconds):
                self._trace.emit("model.loaded", model=model_id, seconds=seconds)
                self._carry_out(self._residency.loaded(model_id, info.weights_bytes, now))
            case _LoadFailed(model_id, error):
                self._trace.emit("model.load_failed", model=model_id, reason=error.message)
                self._carry_out(self._residency.load_failed(model_id, now, error.message))
            case _Unloaded(model_id):
                self._trace.emit("model.unloaded", model=model_id)
                self._carry_out(self._residency.unloaded(model_id, now))
            case _Died(model_id):
                self._on_died(model_id, now)

    def abandon(self) -> None:
        for reply in self._replies.values():
            reply.fail(ActorDied(self.name))

    def _acquire(self, message: _Acquire, now: float) -> list[Action]:
        self._replies[message.ticket] = message.reply
        estimate = self._specs[message.model_id].estimate_bytes
        if not message.by_hand:
            return self._residency.acquire(message.ticket, message.model_id, estimate, now)
        self._restarts[message.model_id].reset()
        return self._residency.preload(message.ticket, message.model_id, estimate, now)

    def _on_died(self, model_id: str, now: float) -> None:
        self._trace.emit("worker.died", model=model_id)
        delay = self._restarts[model_id].died(now)
        actions = self._residency.died(model_id, now, respawn=delay is not None)
        self._carry_out(actions, delay or 0.0)

    # ---- carrying out ----------------------------------------------------------------------

    def _carry_out(self, actions: Iterable[Action], delay_seconds: float = 0.0) -> None:
        for action in actions:
            match action:
                case Load(model_id):
                    self._start(model_id, delay_seconds)
                case Unload(model_id, reason):
                    self._trace.emit("model.leaving", model=model_id, reason=reason)
                    self._lives[model_id].stop.cancel()
                case Grant(ticket, model_id):
                    self._grant(ticket, model_id)
                case Fail(ticket, _, code, reason):
                    self._fail(ticket, RequestError(code, sentence(reason)))
                case Cancel(ticket, model_id, code, reason):
                    self._hosts[model_id].evict(ticket, ErrorInfo(code, sentence(reason)))

    def _start(self, model_id: str, delay_seconds: float) -> None:
        self._trace.emit("model.loading", model=model_id)
        life = self._lives[model_id] = _Life()
        spec = self._specs[model_id]
        self._nursery.start_soon(self._live, spec, life, delay_seconds, name=f"model {model_id}")

    def _grant(self, ticket: Ticket, model_id: str) -> None:
        host = self._hosts[model_id]
        reply = self._replies.pop(ticket)
        if host.info is None:  # died between its report and the grant; its end is on the way
            reply.fail(RequestError.of(GONE))
        else:
            reply.set(Lease(ticket, host, host.info))

    def _fail(self, ticket: Ticket, error: RequestError) -> None:
        reply = self._replies.pop(ticket, None)
        if reply is not None:
            reply.fail(error)

    async def _live(self, spec: ModelSpec, life: _Life, delay_seconds: float) -> None:
        """One life of a model; how it ended is told to the registry as a message."""
        host = self._hosts[spec.id]
        began = trio.current_time()

        def ready(info: ModelInfo) -> None:
            self.ref.tell(_Loaded(spec.id, info, trio.current_time() - began))

        ended: _Message = _Unloaded(spec.id)
        parting = CLOSING
        try:
            with life.stop:
                await trio.sleep(delay_seconds)
                result = await contained(lambda: self._run_model(spec, host, ready))
                ended, parting = self._ended(spec.id, result), GONE
        finally:
            # Also when all is cancelled from outside: nobody may wait for this model any more.
            host.close(parting)
        self.ref.tell(ended)

    def _ended(self, model_id: str, result: outcome.Outcome[ErrorInfo | None]) -> _Message:
        if isinstance(result, outcome.Error):
            causes = ", ".join(describe(leaf) for leaf in leaves(result.error))
            self._trace.emit("model.crashed", model=model_id, reason=causes)
            return _Died(model_id)
        error = result.unwrap()
        return _Died(model_id) if error is None else _LoadFailed(model_id, error)

    # ---- reports ---------------------------------------------------------------------------

    def reports(self, waiting: Callable[[str], int], max_rows: int) -> tuple[ModelReport, ...]:
        """Every model that can be asked for. `waiting` counts the requests that queue for one."""
        known = {residence.id: residence for residence in self._residency.snapshot().models}
        return tuple(
            self._report(self._hosts[model_id], known.get(model_id), waiting(model_id), max_rows)
            for model_id in self._specs
        )

    def _report(
        self, host: Host, residence: Residence | None, waiting: int, max_rows: int
    ) -> ModelReport:
        figures, totals = host.figures, host.totals()
        batch = BatchReport(
            max_rows,
            figures.running_rows,
            waiting,
            totals.submitted_rows,
            totals.finished_rows,
            totals.cancelled_rows,
            figures.kv_bytes,
        )
        report = ModelReport(host.id, "never_loaded", info=host.info, batch=batch)
        if residence is None:
            return report
        return attrs.evolve(
            report,
            state=residence.state,
            bytes=residence.bytes,
            pinned=residence.pinned,
            leases=residence.leases,
            last_used_at=residence.last_used_at,
            memory=figures.memory,
        )

    def totals(self) -> Totals:
        """Counters of all models since the start."""
        return sum((host.totals() for host in self._hosts.values()), start=Totals())

    def __repr__(self) -> str:
        return f"<Registry {len(self._lives)} lives | {self._residency!r}>"


def sentence(reason: str) -> str:
    """A reason from below, as an English sentence for a client."""
    return f"{reason[:1].upper()}{reason[1:].rstrip('.')}."
