"""Faults of the link between a runtime and its workers: a frame is lost, late, cut, or doubled.

They happen below everything that looks at frames, in the runtime's own process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal, TypeAlias, cast

import attrs
import trio

from headrace.actors import remote
from headrace.runtime.link import Link
from headrace.runtime.process import WorkerProcess

LinkFault: TypeAlias = Literal["drop", "delay", "truncate", "duplicate", "cut"]


@attrs.define
class LinkFaults:
    """What befalls the next frame in each direction; once, then all is well again."""

    from_worker: LinkFault | None = None
    to_worker: LinkFault | None = None
    delay_seconds: float = 0.3
    # Faults that have happened.
    happened: list[LinkFault] = attrs.field(factory=list)

    def take(self, direction: Literal["from_worker", "to_worker"]) -> LinkFault | None:
        fault = cast("LinkFault | None", getattr(self, direction))
        if fault is not None:
            setattr(self, direction, None)
            self.happened.append(fault)
        return fault


class FaultyLink:
    """A link with faults. To the worker a frame cannot be late: sending does not wait."""

    def __init__(self, link: Link, faults: LinkFaults) -> None:
        self._link = link
        self._faults = faults
        self._again: deque[bytes] = deque()

    def send(self, payload: bytes) -> None:
        match self._faults.take("to_worker"):
            case "drop":
                return
            case "truncate":
                payload = payload[: len(payload) // 2]
            case "duplicate":
                self._link.send(payload)
            case "cut":
                self._link.close()
        self._link.send(payload)

    async def receive(self) -> bytes | None:
        if self._again:
            await trio.lowlevel.checkpoint()
            return self._again.popleft()
        payload = await self._link.receive()
        fault = self._faults.take("from_worker") if payload is not None else None
        match fault, payload:
            case "drop", bytes():
                return await self._link.receive()
            case "delay", bytes():
                await trio.sleep(self._faults.delay_seconds)
            case "truncate", bytes():
                return payload[: len(payload) // 2]
            case "duplicate", bytes():
                self._again.append(payload)
            case "cut", _:
                self._link.close()
                return None
        return payload

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)


@contextmanager
def faulty_links() -> Iterator[LinkFaults]:
    """Every worker that starts inside is linked through these faults; none are set at first."""
    faults = LinkFaults()
    # What the runner of workers has imported.
    names: dict[str, Any] = vars(remote)
    opened = names["open_worker"]

    @asynccontextmanager
    async def open_faulty(argv: Sequence[str], **more: Any) -> AsyncIterator[WorkerProcess]:
        async with opened(argv, **more) as worker:
            worker.link = cast(Link, FaultyLink(worker.link, faults))
            yield worker

    names["open_worker"] = open_faulty
    try:
        yield faults
    finally:
        names["open_worker"] = opened
