"""A model in a process of its own: the parent's side of one worker.

What kills a model (memory, drivers, a kernel that hangs) kills its process and nothing else. The
parent sees the link end, or the beats stop, and the life of the model is over.
"""

from __future__ import annotations

import sys

import attrs
import trio

from headrace.actors.host import Host
from headrace.actors.local import EngineLimits, Readied
from headrace.actors.messages import ToModel
from headrace.actors.spec import ModelSpec
from headrace.actors.wire import (
    FROM_WORKER,
    TO_WORKER,
    Beat,
    Begin,
    DeliveryFrame,
    NotLoaded,
    Ready,
    decode_delivery,
)
from headrace.runtime.errors import ErrorInfo, KernelError
from headrace.runtime.process import WorkerProcess, open_worker
from headrace.runtime.trace import Trace

# The loop of a worker beats each second; a machine that is very busy may miss a few.
BEAT_MARGIN_SECONDS = (2.0, 5.0)
# Until its model is ready a worker imports, maps files and converts weights, which may keep its
# loop from beating however short a step may be.
START_SILENCE_SECONDS = 60.0
ENGINE_LOADER = "headrace.actors.engine.lazy:engine_loader"


class WorkerDied(KernelError):
    """A worker ended by itself, or gave no sign of life and was killed. The argument says how."""


@attrs.frozen
class RemoteRunner:
    """Runs each model in a worker process."""

    limits: EngineLimits
    blas_threads: int
    trace: Trace
    loader: str = ENGINE_LOADER

    async def __call__(self, spec: ModelSpec, host: Host, ready: Readied) -> ErrorInfo | None:
        """One life of a model. Answers why it could not be loaded; otherwise runs until it is
        cancelled, when its process is stopped and gone. Raises `WorkerDied`."""
        argv = (sys.executable, "-m", "headrace.actors.worker")
        async with open_worker(argv, name=spec.id) as worker:
            self.trace.emit("worker.started", model=spec.id)
            host.pid = worker.pid
            begin = Begin(spec, self.limits, self.loader, self.blas_threads)
            worker.link.send(TO_WORKER.encode(begin))
            refused = await self._follow(worker, host, ready)
        host.last_exit = worker.exit
        if refused is None:
            raise WorkerDied(str(worker.exit))
        return refused

    async def _follow(self, worker: WorkerProcess, host: Host, ready: Readied) -> ErrorInfo | None:
        """Take what the worker sends until it ends. None: it died."""

        def tell(message: ToModel) -> None:
            worker.link.send(TO_WORKER.encode(message))

        limit_seconds = longest_silence(self.limits.step_seconds)
        silence_seconds = max(START_SILENCE_SECONDS, limit_seconds)
        while True:
            payload = None
            with trio.move_on_after(silence_seconds) as silence:
                payload = await worker.link.receive()
            if silence.cancelled_caught:
                self.trace.emit("worker.silent", model=host.id, seconds=silence_seconds)
                worker.kill()
            if payload is None:
                return None
            match FROM_WORKER.decode(payload):
                case Ready(info):
                    silence_seconds = limit_seconds
                    host.open(info, tell)
                    ready(info)
                case NotLoaded(error):
                    return error
                case DeliveryFrame() as frame:
                    host.deliver(decode_delivery(frame))
                case Beat():
                    pass


def longest_silence(step_seconds: float) -> float:
    """Seconds without a sign of life after which a worker counts as dead.

    Longer than the worker's own watchdog takes, which ends a hung step with a reason. Whoever sets
    a short limit wants to know soon, so the margin shrinks with it.
    """
    least, most = BEAT_MARGIN_SECONDS
    return step_seconds + min(max(step_seconds, least), most)
