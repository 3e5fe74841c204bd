"""The main of a worker process: one model, its Model actor unchanged, and a link to the parent.

    python -m headrace.actors.worker NUMBER

NUMBER is the inherited socket. The worker leaves when the link closes, when its parent is gone,
or when its model is: with exit code 0 when asked to, 1 when the model failed.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from functools import partial

import trio

from headrace.actors.local import LocalRunner
from headrace.actors.messages import Delivery, ToModel
from headrace.actors.troubles import described
from headrace.actors.wire import (
    FROM_WORKER,
    TO_WORKER,
    Beat,
    Begin,
    Noted,
    NotLoaded,
    Ready,
    encode_delivery,
)
from headrace.runtime.contracts import ModelInfo
from headrace.runtime.errors import ErrorInfo
from headrace.runtime.link import Link, open_link
from headrace.runtime.ordered import OrderedLink
from headrace.runtime.ports import Loader
from headrace.runtime.supervisor import leaves
from headrace.runtime.thread import open_thread
from headrace.runtime.trace import Trace, TraceEvent
from headrace.runtime.worker_side import inherited_socket, leave_with_parent

BEAT_SECONDS = 1.0
# A thread that is idle ends at once. One that hangs goes with the process, and while it is
# waited for, the parent's requests wait too.
THREAD_STOP_SECONDS = 0.2
# Events that are for the log, which the parent writes. Of all else it has a trace of its own.
TOLD = frozenset({"cache.trouble", "model.build_failed", "model.not_warmed", "row.failed"})


class Outflow:
    """The model's outlet in a worker: announcement and deliveries go out as frames."""

    def __init__(self, link: OrderedLink) -> None:
        self._link = link
        self.tell: Callable[[ToModel], None] | None = None

    def open(self, info: ModelInfo, tell: Callable[[ToModel], None]) -> None:
        self.tell = tell
        self._link.send(FROM_WORKER.encode(Ready(info)))

    def deliver(self, delivery: Delivery) -> None:
        self._link.send(encode_delivery(delivery))

    def close(self, error: ErrorInfo) -> None:
        """The process ends, which tells the parent all there is to know."""


async def work(link: OrderedLink) -> int:
    """Serve one model over the link; the exit code."""
    first = await link.receive()
    if first is None:
        return 0
    begin: Begin = TO_WORKER.decode(first)
    outlet = Outflow(link)
    loader = _loader(begin)
    threads = partial(open_thread, stop_seconds=THREAD_STOP_SECONDS)
    trace = Trace()
    trace.listen(partial(_pass_on, link))
    run = LocalRunner(loader, threads, begin.limits, trace, measures=True)
    code = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_beat, link)
        nursery.start_soon(_listen, link, outlet, nursery.cancel_scope)
        error = await run(begin.spec, outlet, lambda info: None)
        if error is not None:
            code = 1
            link.send(FROM_WORKER.encode(NotLoaded(error)))
            await link.flushed()
        nursery.cancel_scope.cancel()
    return code


def _pass_on(link: OrderedLink, event: TraceEvent) -> None:
    if event.name in TOLD:
        fields = {name: str(value) for name, value in event.fields.items()}
        link.send(FROM_WORKER.encode(Noted(event.name, event.ticket, fields)))


def _loader(begin: Begin) -> Loader:
    module, _, name = begin.loader.partition(":")
    factory = getattr(importlib.import_module(module), name)
    loader: Loader = factory(begin.blas_threads)
    return loader


async def _beat(link: OrderedLink) -> None:
    while True:
        link.send(FROM_WORKER.encode(Beat()))
        await trio.sleep(BEAT_SECONDS)


async def _listen(link: OrderedLink, outlet: Outflow, scope: trio.CancelScope) -> None:
    while (payload := await link.receive()) is not None:
        message = TO_WORKER.decode(payload)
        if outlet.tell is not None:
            outlet.tell(message)
    scope.cancel()


async def main(number: str) -> int:
    async with open_link(Link(inherited_socket(number))) as link:
        return await work(OrderedLink(link))


def run(number: str) -> None:
    """Run until there is nothing to do, and leave the process by the shortest way.

    An engine thread that hangs in a step would keep an ordinary exit waiting for ever.
    """
    leave_with_parent()
    try:
        code = trio.run(main, number)
    except (Exception, BaseExceptionGroup, KeyboardInterrupt) as error:
        for leaf in leaves(error):
            sys.stderr.write(f"headrace worker: {described(leaf)}\n")
        code = 1
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run(sys.argv[1])
