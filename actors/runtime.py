"""A whole runtime as one async context manager: for a server, a program, or a test.

No process of its own and no global state: several runtimes may live in one process, and leaving
the context, by whatever way, ends every request and frees every model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import attrs
import trio

from headrace.actors.admission import Admission, CloseToNew
from headrace.actors.background import Background
from headrace.actors.catalogue import Catalogue
from headrace.actors.counting import Counted, count
from headrace.actors.generation import CANCEL_REASONS, CANCELLED, Generation
from headrace.actors.history import History, open_store
from headrace.actors.jobs import Jobs, open_jobs
from headrace.actors.life import EngineLimits
from headrace.actors.lives import CLOSING, Runner
from headrace.actors.messages import Ticket
from headrace.actors.provision import Provision, provide
from headrace.actors.registry import NoMoreLeases, Registry
from headrace.actors.remote import RemoteRunner
from headrace.actors.reports import ModelReport, RequestReport, Statistics
from headrace.actors.routing import Names
from headrace.actors.scope import Limits, Stages, run_stages
from headrace.actors.thinking import by_default
from headrace.actors.together import Part, alone
from headrace.runtime.cleanup import bounded_cleanup
from headrace.runtime.contracts import CancelReason, Failed, InferenceRequest, Request
from headrace.runtime.errors import ActorDied, Code, ErrorInfo, RequestError
from headrace.runtime.restart import RestartBudget
from headrace.runtime.settings import Settings
from headrace.runtime.thread import ThreadFactory, open_thread
from headrace.runtime.trace import Trace

# Beyond the watchdog's limit: what a hung engine takes to be found, and its scope to be left.
SEAT_MARGIN_SECONDS = 10.0
SCOPE_MARGIN_SECONDS = 15.0
# What a model keeps of past prompts is at most one such part of the memory for models.
CACHE_SHARE = 4


class Runtime:
    """What runs models and requests. Made by `open_runtime`."""

    def __init__(
        self,
        settings: Settings,
        stages: Stages,
        history: History,
        jobs: Jobs,
        catalogue: Catalogue,
        nursery: trio.Nursery,
    ) -> None:
        self.settings = settings
        self.trace = stages.trace
        self.registry = stages.registry
        # Responses that were asked to be kept, and runs that no connection holds.
        self.history = history
        self.background = Background(nursery, settings.max_rows + settings.queue_limit)
        self.jobs = jobs
        self._admission = stages.admission
        self._stages = stages
        self._catalogue = catalogue
        self._nursery = nursery
        self._ticket_numbers = itertools.count(1)
        self._live: dict[Ticket, Generation] = {}
        self._idle = trio.Event()
        self._idle.set()
        self._cancelled: dict[CancelReason, int] = dict.fromkeys(CANCEL_REASONS, 0)
        self.draining = False
        # Nothing runs any more; requests that still come are answered so.
        self.closed = False

    # ---- requests ------------------------------------------------------------------------

    @asynccontextmanager
    async def request(
        self, request: Request, part: Part | None = None
    ) -> AsyncIterator[Generation]:
        """The scope of one request. When this returns, nothing of the request is left.

        Entering never raises for a refusal: that is the first event. Leaving before the end has
        been read cancels the request (reason: disconnect). Requests that belong `Together` are
        given a part of it each, and all of them have to be entered.
        """
        if isinstance(request, InferenceRequest):
            request = by_default(request, self.settings.thinking)
        generation = self._begin(request, alone() if part is None else part)
        try:
            yield generation
        finally:
            generation.end_with(Failed(CANCELLED), "disconnect")
            seconds = self.settings.step_timeout_s + SCOPE_MARGIN_SECONDS
            with bounded_cleanup(seconds):
                await generation.released.wait()
            self._finish(generation)

    def _begin(self, request: Request, part: Part) -> Generation:
        ticket = f"t{next(self._ticket_numbers)}"
        stall_seconds = self.settings.write_stall_s
        generation = Generation(ticket, request, part, stall_seconds, self.trace)
        self.trace.emit(
            "request.accepted", ticket, id=request.id, model=request.model, route=request.route
        )
        if not self._live:
            self._idle = trio.Event()
        self._live[ticket] = generation
        if self.closed:
            generation.put(Failed(CLOSING))
            generation.released.set()
        else:
            name = f"stages {ticket}"
            self._nursery.start_soon(run_stages, self._stages, generation, name=name)
        return generation

    def _finish(self, generation: Generation) -> None:
        del self._live[generation.ticket]
        if not self._live:
            self._idle.set()
        if generation.cancelled is not None:
            self._cancelled[generation.cancelled] += 1
        generation.trace_end()

    def requests(self) -> tuple[RequestReport, ...]:
        """The live requests, oldest first."""
        return tuple(generation.report() for generation in self._live.values())

    def cancel(self, request_id: str, reason: CancelReason = "api") -> bool:
        """End a live request by its client-visible id; False when there is none."""
        for generation in self._live.values():
            if generation.request.id == request_id:
                generation.cancel(reason)
                return True
        return False

    async def count(self, request: InferenceRequest) -> Counted:
        """The length of a request's prompt; nothing is generated. Raises `RequestError`."""
        ticket = f"t{next(self._ticket_numbers)}"
        request = by_default(request, self.settings.thinking)
        try:
            return await count(self._stages, ticket, request)
        except ActorDied:
            raise RequestError.of(CLOSING) from None

    # ---- models --------------------------------------------------------------------------

    async def load(self, model_id: str, *, current: bool = False, pin: bool = False) -> ModelReport:
        """Make a model resident, and perhaps the current one, or pinned. Raises `RequestError`."""
        model_id = self.registry.find(model_id)
        if current:
            self.registry.check_primary(model_id)
        await self.registry.load(model_id)
        if pin:
            await self.registry.pin(model_id)
        if current:
            self.registry.current = model_id
        return self.model(model_id)

    async def unload(self, model_id: str, *, force: bool = False) -> ModelReport:
        """Free a model's memory. Raises `RequestError`: in-use, unless forced."""
        model_id = self.registry.find(model_id)
        await self.registry.unload(model_id, force=force)
        return self.model(model_id)

    async def pin(self, model_id: str, *, pinned: bool = True) -> ModelReport:
        """Keep a model in memory, or no longer. Raises `RequestError`."""
        model_id = self.registry.find(model_id)
        await self.registry.pin(model_id, pinned=pinned)
        return self.model(model_id)

    def model(self, model_id: str) -> ModelReport:
        """One model. Raises `RequestError` (model_not_found)."""
        model_id = self.registry.find(model_id)
        return next(model for model in self._model_reports() if model.id == model_id)

    def current_model(self) -> ModelReport:
        """The model that answers for the aliases. Raises `RequestError` (no_current_model)."""
        if self.registry.current is None:
            raise RequestError(Code.NO_CURRENT_MODEL, "There is no current model.")
        return self.model(self.registry.current)

    async def look_for_models(self) -> None:
        """Let models that have come onto this machine be asked for. Looks every few seconds at
        most, and waits no longer than a moment. Raises `ActorDied`."""
        shelf = await self._catalogue.look(self.registry.ids)
        if shelf.models:
            await self.registry.admit(shelf)

    @asynccontextmanager
    async def whole_device(self) -> AsyncIterator[None]:
        """For work beside which no row of any model may run: waits for those that run, and holds
        back the others until it is left. They wait in their queues."""
        async with self._admission.whole_device():
            yield

    # ---- drain ---------------------------------------------------------------------------

    def close_to_new(self) -> None:
        """Refuse newcomers from now on; requests in flight, queued ones included, go on."""
        self.draining = True
        self._admission.ref.tell(CloseToNew(Code.DRAINING))

    def open_to_new(self) -> None:
        self.draining = False
        self._admission.ref.tell(CloseToNew(None))

    async def wait_idle(self) -> None:
        """Until no request is in flight."""
        await self._idle.wait()

    async def wait_released(self) -> None:
        """Until the requests in flight hold nothing any more, whether or not they were read."""
        for generation in list(self._live.values()):
            await generation.released.wait()

    async def release_all(self, seconds: float) -> None:
        """After `end_all`: wait until the requests hold nothing, but no longer than `seconds`.

        A row that is still there then, since its engine stands still, goes with its model; no
        request waits for it any more.
        """
        with trio.move_on_after(seconds):
            await self.wait_released()
        for generation in self._live.values():
            generation.released.set()

    def end_all(self, error: ErrorInfo) -> None:
        """Give each live request this failure as its end."""
        for generation in self._live.values():
            generation.end_with(Failed(error), "drain")

    # ---- reports -------------------------------------------------------------------------

    def _model_reports(self) -> tuple[ModelReport, ...]:
        admission = self._admission
        return tuple(
            attrs.evolve(model, safe_context=admission.safe_context(model.info))
            if model.info is not None
            else model
            for model in self.registry.reports(admission.waiting, self.settings.max_rows)
        )

    def statistics(self) -> Statistics:
        admission, models = self._admission, self._model_reports()
        totals, ledger = self.registry.totals(), admission.ledger()
        return Statistics(
            requests_in_flight=len(self._live),
            queue_depth=admission.queue_depth() + ledger.held_back,
            rows_running=sum(model.batch.running_rows for model in models),
            leases=sum(model.leases for model in models),
            kv_bytes=sum(model.batch.kv_bytes for model in models),
            prompt_tokens_total=totals.prompt_tokens,
            cached_tokens_total=totals.cached_tokens,
            decoded_tokens_total=totals.decoded_tokens,
            cancelled_total=dict(self._cancelled),
            models=models,
            budget_bytes=self.registry.budget_bytes,
            ledger=ledger,
            current=self.registry.current,
            draining=self.draining,
        )

    def __repr__(self) -> str:
        return f"<Runtime {len(self._live)} requests | {self.registry!r}>"


@asynccontextmanager
async def open_runtime(
    settings: Settings,
    *,
    provision: Provision | None = None,
    threads: ThreadFactory = open_thread,
) -> AsyncIterator[Runtime]:
    """A running runtime over the models of this machine, or those of `provision`.

    The first model is current; those that are named in the settings are loaded at once. Leaving
    refuses newcomers, ends what is in flight (code `closed`), and frees the models. Raises
    `RequestError` for a model that is named in the settings and cannot be found.
    """
    if provision is None:
        provision = await trio.to_thread.run_sync(provide, settings)
    models = provision.models
    trace = Trace()
    admission = _admission(settings, provision, trace)
    registry = Registry(
        models,
        _names(settings, provision),
        _runner(settings, provision, threads, trace),
        admission,
        budget_bytes=provision.budget_bytes,
        restarts=partial(RestartBudget, settings.restart_limit, settings.restart_period_s),
        end_seconds=settings.step_timeout_s + SEAT_MARGIN_SECONDS,
        idle_seconds=settings.idle_unload_s,
        trace=trace,
    )
    waits = Limits(settings.queue_timeout_s or math.inf, settings.request_timeout_s or math.inf)
    history = History(await open_store(settings), threads, trace)
    jobs = await open_jobs(settings, threads, trace)
    async with trio.open_nursery() as nursery:
        # Their mailboxes exist from the start, so nothing told early is lost.
        nursery.start_soon(registry.serve, name="registry")  # noqa: ASYNC113
        nursery.start_soon(admission.serve, name="admission")  # noqa: ASYNC113
        nursery.start_soon(history.serve, name="history")  # noqa: ASYNC113
        stages = Stages(registry, admission, waits, trace)
        catalogue = Catalogue(provision.look, trace)
        runtime = Runtime(settings, stages, history, jobs, catalogue, nursery)
        jobs.attach(runtime)
        nursery.start_soon(jobs.serve, name="jobs")  # noqa: ASYNC113
        for spec in models[: provision.preload]:
            nursery.start_soon(_preload, registry, spec.id)
        try:
            yield runtime
        finally:
            runtime.close_to_new()
            registry.ref.tell(NoMoreLeases())
            jobs.close()
            runtime.end_all(CLOSING)
            await jobs.stop()
            with bounded_cleanup(settings.step_timeout_s + SCOPE_MARGIN_SECONDS):
                await runtime.wait_released()
                await runtime.background.wait_ended()
            runtime.closed = True
            nursery.cancel_scope.cancel()


def _admission(settings: Settings, provision: Provision, trace: Trace) -> Admission:
    return Admission(
        settings.max_rows,
        settings.queue_limit,
        trace,
        memory_bytes=provision.memory_bytes,
        chunk_tokens=settings.prefill_chunk_tokens,
    )


def _names(settings: Settings, provision: Provision) -> Names:
    return Names(
        settings.aliases,
        settings.model_names,
        provision.places,
        unknown_is_current=settings.unknown_model == "current",
    )


def _runner(
    settings: Settings, provision: Provision, threads: ThreadFactory, trace: Trace
) -> Runner:
    limits = EngineLimits(
        settings.prefill_chunk_tokens,
        settings.prefill_chunk_s,
        settings.step_timeout_s,
        cache_bytes=min(settings.prompt_cache_bytes, provision.budget_bytes // CACHE_SHARE),
        disk_folder=str(settings.home / "prefixes"),
        disk_bytes=settings.prompt_cache_disk_bytes,
        rationed=True,
    )
    # An embedding program has one process, unless it asks for more.
    if settings.in_process is not False:
        # Here, since a server of workers never needs what runs a model.
        from headrace.actors.local import LocalRunner

        return LocalRunner(provision.loader, threads, limits, trace)
    loader, patience = provision.worker_loader, provision.patience
    return RemoteRunner(limits, settings.blas_threads, trace, loader, patience)


async def _preload(registry: Registry, model_id: str) -> None:
    """Load before anybody asks. A failure shows in the model's state, and to whoever asks."""
    with suppress(RequestError, ActorDied):
        await registry.load(model_id)
