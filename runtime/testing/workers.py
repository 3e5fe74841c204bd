"""A real server over real worker processes, in which scripted models run.

Time is real here, and so are signals and deaths.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from headrace.actors.patience import Patience
from headrace.actors.provision import Provision
from headrace.actors.reports import ModelReport
from headrace.actors.runtime import Runtime, open_runtime
from headrace.http.serve import serve_runtime
from headrace.runtime.settings import Settings
from headrace.runtime.testing.leaks import Baseline
from headrace.runtime.testing.planned import LOADER, WorkerModel, loader
from headrace.runtime.testing.site import Served, http
from headrace.runtime.trace import TraceEvent

# What an interpreter takes to start on a machine that has other things to do, and far more.
START_SECONDS = 60.0


def provision(
    *models: WorkerModel,
    budget_bytes: int | None = None,
    worker_loader: str = LOADER,
    patience: Patience | None = None,
) -> Provision:
    """Without `budget_bytes` all models fit at once, whatever their rows take."""
    if budget_bytes is None:
        budget_bytes = 2 * sum(model.weights_bytes for model in models)
    specs = tuple(model.spec() for model in models)
    return Provision(specs, loader(1), budget_bytes, worker_loader, patience=patience or Patience())


class Budget:
    """Listens to a runtime's trace: bytes of all models that are in memory, coming or going.

    Counted by what each model really takes, from the start of its load to the end of its life,
    whatever the runtime believes of it.
    """

    def __init__(self, runtime: Runtime, *models: WorkerModel) -> None:
        self.peak_bytes = 0
        # What happened, as (what, model).
        self.log: list[tuple[str, str]] = []
        self._bytes = Counter({model.id: model.weights_bytes for model in models})
        self._there = {
            report.id
            for report in runtime.statistics().models
            if report.state in ("loading", "ready", "draining")
        }
        runtime.trace.listen(self._on_event)

    def _on_event(self, event: TraceEvent) -> None:
        match event.name:
            case "model.loading":
                self._there.add(event.fields["model"])
            case "model.evicted" | "model.load_failed" | "worker.died":
                self._there.discard(event.fields["model"])
            case "model.loaded":
                pass
            case _:
                return
        self.log.append((event.name, event.fields["model"]))
        self.peak_bytes = max(self.peak_bytes, sum(self._bytes[name] for name in self._there))

    def loads(self, model_id: str) -> int:
        return self.log.count(("model.loaded", model_id))


@attrs.define(kw_only=True)
class WorkerSite(Served):
    """A server whose models run in worker processes."""

    runtime: Runtime
    budget: Budget

    def model(self, model_id: str) -> ModelReport:
        return self.runtime.model(model_id)

    def pid(self, model_id: str) -> int:
        pid = self.model(model_id).worker.pid
        assert pid is not None, f"{model_id} has no worker"
        return pid

    def active_bytes(self, model_id: str) -> int:
        """What the model's worker measured last, its rows included; 0 before it did."""
        memory = self.model(model_id).memory
        return 0 if memory is None else memory.active_bytes

    def kill(self, model_id: str, number: int = signal.SIGKILL) -> int:
        """Send a signal to the model's worker; its process id."""
        pid = self.pid(model_id)
        os.kill(pid, number)
        return pid

    async def ready(self, *model_ids: str, within: float = START_SECONDS) -> None:
        """Until all these models are ready at once."""

        def holds() -> bool:
            return all(self.model(model_id).state == "ready" for model_id in model_ids)

        await self.until(holds, within=within)

    async def get(self, path: str) -> Any:
        reply = await self.call(http("GET", path))
        assert reply.status in (200, 503), reply
        return reply.json

    async def order(self, path: str, body: str = "{}", *, method: str = "POST") -> Any:
        """An admin call that has to succeed; its answer."""
        reply = await self.call(http(method, path, body.encode()))
        assert reply.status == 200, reply
        return reply.json


@asynccontextmanager
async def open_workers(
    *models: WorkerModel,
    budget_bytes: int | None = None,
    loaded: bool = True,
    worker_loader: str = LOADER,
    patience: Patience | None = None,
    **settings: Any,
) -> AsyncIterator[WorkerSite]:
    """A server on a free port. With `loaded` every model is ready before the story begins;
    otherwise the first one is loading."""
    provided = provision(
        *models, budget_bytes=budget_bytes, worker_loader=worker_loader, patience=patience
    )
    async with open_provided(provided, *models, loaded=loaded, **settings) as site:
        yield site


@asynccontextmanager
async def open_provided(
    provided: Provision, *models: WorkerModel, loaded: bool = True, **settings: Any
) -> AsyncIterator[WorkerSite]:
    """The same over any provision: that of this machine, for one. With `loaded` its `models`
    are ready before the story begins, and what all of them take is counted."""
    chosen = Settings(**{"port": 0, "in_process": False, "debug_trace": True} | settings)
    async with (
        open_runtime(chosen, provision=provided) as runtime,
        trio.open_nursery() as nursery,
    ):
        if loaded:
            async with trio.open_nursery() as loads:
                for model in models:
                    loads.start_soon(runtime.load, model.id)
        server = await nursery.start(serve_runtime, runtime)
        await trio.sleep(0.05)
        budget = Budget(runtime, *models)
        baseline = Baseline.of(runtime)
        yield WorkerSite(server=server, baseline=baseline, runtime=runtime, budget=budget)
        nursery.cancel_scope.cancel()


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and was not yet waited for does not."""
    told = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
    return bool(told.stdout.strip()) and not told.stdout.startswith(b"Z")
