"""The event stream of the live view: one snapshot at a time, for as long as somebody looks."""

from __future__ import annotations

import trio
from quart import Response

from headrace.http.exchange import Exchange
from headrace.http.pulled import PulledBody
from headrace.http.sse import HEADERS
from headrace.http.watch import Watch
from headrace.http.wire.frames import CONTENT_TYPE, frame

# Four looks a second are what an eye takes for movement, with the page filling the gaps.
TICK_SECONDS = 0.25


class Watching(PulledBody):
    """Nothing is kept for a reader that is slow: it gets the next snapshot when it comes for it.

    It ends with its reader, or when the server has nothing left to do and will get nothing more.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._due = trio.current_time()
        self._ended = False

    async def __anext__(self) -> bytes:
        if self._ended:
            await trio.lowlevel.checkpoint()
            raise StopAsyncIteration
        await trio.sleep_until(self._due)
        now = trio.current_time()
        self._due = now + TICK_SECONDS
        # Beyond a last look, it would hold up the end of the server.
        self._ended = self._watch.over
        return frame(self._watch.snapshot(now))


async def live(exchange: Exchange) -> Response:
    watch = exchange.edge.watch
    exchange.scopes.enter_context(watch.watching())
    # Whoever looks has seen all there was, whenever they leave.
    exchange.tell_ended()
    return Response(Watching(watch), content_type=CONTENT_TYPE, headers=HEADERS)
