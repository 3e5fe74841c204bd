"""The exchanges under way, and for a minute how the generating ones ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import trio

from headrace.http.exchange import Exchange

Ending: TypeAlias = Literal["finished", "cancelled"]

KEPT_SECONDS = 60.0
KEPT_ENDINGS = 10_000


class LiveExchanges:
    """By request id, which no two live exchanges share."""

    def __init__(self) -> None:
        self._live: dict[str, Exchange] = {}
        # Ids of request and response, each with when it ended and how; the oldest are first.
        self._endings: dict[str, tuple[float, Ending]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._live

    def __len__(self) -> int:
        return len(self._live)

    @contextmanager
    def hold(self, exchange: Exchange) -> Iterator[Exchange]:
        self._live[exchange.id] = exchange
        try:
            yield exchange
        finally:
            del self._live[exchange.id]
            self._remember(exchange)

    def response_id(self, name: str) -> str | None:
        exchange = self._live.get(name)
        return None if exchange is None else exchange.response_id

    async def cancel(self, name: str) -> Ending | None:
        """End a generating exchange by its request's or its response's id.

        Returns when nothing of it is left in the model; None where the id means nothing.
        """
        exchange = self._find(name)
        if exchange is None or exchange.work is None:
            await trio.lowlevel.checkpoint()
            return self._recent(name)
        exchange.work.cancel("api")
        await exchange.work.wait_released()
        return _ending(exchange)

    def _find(self, name: str) -> Exchange | None:
        by_response = (e for e in self._live.values() if e.response_id == name)
        return self._live.get(name) or next(by_response, None)

    def _remember(self, exchange: Exchange) -> None:
        if exchange.work is None:
            return
        ending = _ending(exchange)
        for name in (exchange.id, exchange.response_id):
            if name is not None:
                self._endings.pop(name, None)
                self._endings[name] = (trio.current_time(), ending)
        while len(self._endings) > KEPT_ENDINGS:
            del self._endings[next(iter(self._endings))]

    def _recent(self, name: str) -> Ending | None:
        at, ending = self._endings.get(name, (None, None))
        return ending if at is not None and trio.current_time() - at <= KEPT_SECONDS else None

    def __repr__(self) -> str:
        return f"<LiveExchanges {len(self._live)} under way>"


def _ending(exchange: Exchange) -> Ending:
    work = exchange.work
    return "finished" if work is None or work.cancelled is None else "cancelled"
