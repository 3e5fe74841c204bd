"""Looks at a server that is being soaked, again and again, and what each look has to show."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import attrs
import trio
from soak.book import Book
from soak.rules import Look, broken
from soak.timings import Timings

from headrace.runtime.testing.site import Caller, Reply, http

SAMPLE = re.compile(r"(\w+(?:\{.*\})?) (\S+)")
TRACE_EVENTS = 1200
# In which a question about the server itself has to be answered, and an order be carried out.
ANSWER_SECONDS = 20.0
ORDER_SECONDS = 300.0


@attrs.define
class Looks:
    """Looks in from outside, as an operator does. `last` is the newest look."""

    port: int
    book: Book
    budget_bytes: int
    timings: Timings = attrs.field(factory=Timings)
    last: Look | None = None
    count: int = 0
    health_seconds: list[float] = attrs.field(factory=list)

    async def call(
        self, method: str, path: str, body: bytes = b"", *, within: float = ANSWER_SECONDS
    ) -> Reply:
        with trio.fail_after(within):
            async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
                await stream.send_all(http(method, path, body))
                return Reply.of(await Caller(stream).read_to_end())

    async def get(self, path: str) -> Any:
        return (await self.call("GET", path)).json

    async def look(self, *, disturbed: bool) -> Look:
        """See everything once, and note what is not as it has to be."""
        began = trio.current_time()
        await self.get("/health")
        self.health_seconds.append(trio.current_time() - began)
        metrics = (await self.call("GET", "/metrics")).body.decode()
        stats, engine = await self.get("/stats"), await self.get("/engine")
        live = (await self.get("/v1/requests"))["data"]
        look = Look(
            at=trio.current_time(),
            stats=stats,
            engine=engine,
            metrics=samples(metrics),
            live=tuple(request["id"] for request in live),
        )
        for what in broken(look, self.last, self.book, self.budget_bytes):
            self.book.violate(what)
        self.timings.take((await self.get(f"/debug/trace?limit={TRACE_EVENTS}"))["data"], disturbed)
        self.last, self.count = look, self.count + 1
        return look

    def pids(self) -> dict[str, int]:
        """The worker of each model that has one, as last seen."""
        workers = self.last.engine["workers"] if self.last is not None else []
        return {worker["id"]: worker["pid"] for worker in workers if worker["pid"]}

    def ready(self, pid: int) -> bool:
        """Whether this worker was seen to answer; one that starts or loads may be silent longer."""
        workers = self.last.engine["workers"] if self.last is not None else []
        return any(worker["pid"] == pid and worker["state"] == "ready" for worker in workers)

    async def load(self, model: str) -> None:
        await self._order(f"/admin/models/{model}/load", {})

    async def unload(self, model: str) -> None:
        await self._order(f"/admin/models/{model}/unload", {"force": True})

    async def _order(self, path: str, body: Any) -> None:
        reply = await self.call("POST", path, json.dumps(body).encode(), within=ORDER_SECONDS)
        if reply.status != 200:
            self.book.violate(f"{path} was answered {reply.status} {reply.body!r}")

    async def cancel(self, name: str) -> None:
        reply = await self.call("DELETE", f"/v1/requests/{name}")
        if reply.status not in (200, 404):
            self.book.violate(f"a cancel by id was answered {reply.status} {reply.body!r}")


def samples(text: str) -> dict[str, float]:
    """Series, with their labels, and their values."""
    found = (SAMPLE.fullmatch(line) for line in text.splitlines() if not line.startswith("#"))
    values = {match[1]: float(match[2]) for match in found if match is not None}
    return {series: value for series, value in values.items() if not math.isnan(value)}
