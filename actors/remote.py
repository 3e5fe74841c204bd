"""A model in a process of its own: the parent's side of one worker.

What kills a model (memory, drivers, a kernel that hangs) kills its process and nothing else. The
parent sees the link end, or the beats stop, and the life of the model is over.
"""

from __future__ import annotations

import sys

import attrs
import trio

from headrace.actors.host import Host
from headrace.actors.life import EngineLimits, Readied
from headrace.actors.messages import ToModel
from headrace.actors.patience import Patience, Phase
from headrace.actors.spec import ModelSpec
from headrace.actors.wire import (
    FROM_WORKER,
    TO_WORKER,
    Beat,
    Begin,
    DeliveryFrame,
    Noted,
    NotLoaded,
    Ready,
    decode_delivery,
)
from headrace.runtime.errors import ErrorInfo, KernelError
from headrace.runtime.ordered import OrderedLink
from headrace.runtime.process import WorkerProcess, open_worker
from headrace.runtime.trace import Trace

ENGINE_LOADER = "headrace.actors.engine.lazy:worker_loader"


class WorkerDied(KernelError):
    """A worker ended by itself, or gave no sign of life and was killed. The argument says how."""


@attrs.frozen
class RemoteRunner:
    """Runs each model in a worker process."""

    limits: EngineLimits
    blas_threads: int
    trace: Trace
    loader: str = ENGINE_LOADER
    patience: Patience = attrs.field(factory=Patience)

    async def __call__(self, spec: ModelSpec, host: Host, ready: Readied) -> ErrorInfo | None:
        """One life of a model. Answers why it could not be loaded; otherwise runs until it is
        cancelled, when its process is stopped and gone. Raises `WorkerDied`."""
        argv = (sys.executable, "-m", "headrace.actors.worker")
        async with open_worker(argv, name=spec.id) as worker:
            self.trace.emit("worker.started", model=spec.id)
            host.pid = worker.pid
            begin = Begin(spec, self.limits, self.loader, self.blas_threads)
            link = OrderedLink(worker.link)
            link.send(TO_WORKER.encode(begin))
            refused = await self._follow(worker, link, host, ready)
        host.last_exit = worker.exit
        if refused is None:
            raise WorkerDied(str(worker.exit))
        return refused

    async def _follow(
        self, worker: WorkerProcess, link: OrderedLink, host: Host, ready: Readied
    ) -> ErrorInfo | None:
        """Take what the worker sends until it ends. None: it died. Raises `FrameError`."""

        def tell(message: ToModel) -> None:
            link.send(TO_WORKER.encode(message))

        phase: Phase = "starting"
        while True:
            payload = None
            silence_seconds = self.patience.silence_seconds(phase, self.limits.step_seconds)
            with trio.move_on_after(silence_seconds) as silence:
                payload = await link.receive()
            if silence.cancelled_caught:
                self.trace.emit(
                    "worker.silent", model=host.id, phase=phase, seconds=silence_seconds
                )
                worker.kill()
            if payload is None:
                return None
            match FROM_WORKER.decode(payload):
                case Ready(info):
                    phase = "ready"
                    host.open(info, tell)
                    ready(info)
                case NotLoaded(error):
                    return error
                case DeliveryFrame() as frame:
                    host.deliver(decode_delivery(frame))
                case Noted(name, ticket, fields):
                    self.trace.emit(name, ticket, **{"model": host.id} | fields)
                case Beat() if phase == "starting":
                    phase = "loading"
                    self.trace.emit("worker.loading", model=host.id)
                case Beat():
                    pass
