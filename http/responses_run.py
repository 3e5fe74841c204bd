"""Responses that run without a connection, and what is found out of one before it runs."""

from __future__ import annotations

import logging
from typing import Any

import trio

from headrace.actors.room import token_room
from headrace.actors.runtime import Runtime
from headrace.http.following import Followed
from headrace.http.kept import Kept, Underway
from headrace.http.several import open_work
from headrace.http.wire.openai_responses import AskedResponse
from headrace.http.work import Work
from headrace.runtime.contracts import Failed, Finished
from headrace.runtime.errors import Code, ErrorInfo, RequestError

logger = logging.getLogger(__name__)


class BackgroundRun:
    """One response from its start to its being kept, as a child of the runtime."""

    def __init__(self, runtime: Runtime, kept: Kept, asked: AskedResponse) -> None:
        self.work: Work | None = None
        self.followed = Followed()
        self.underway = Underway(asked, asked.stream(), self, self.followed)
        self._runtime = runtime
        self._kept = kept

    async def start(self) -> None:
        """Raises `RequestError` where too many run. The response can be found from then on."""
        self._kept.begin(self.underway)
        try:
            self._runtime.background.start(self._run, self.underway.asked.response_id)
        except BaseException:
            self._kept.forget(self.underway)
            raise
        await trio.lowlevel.checkpoint()

    async def _run(self) -> None:
        try:
            await self._kept.keep_running(self.underway)
            await self._generate()
            await self._kept.keep(self.underway)
        except Exception:
            logger.exception("a background response failed")
            self.followed.last += self.underway.writer.feed(Failed(_INTERNAL))
        finally:
            self._kept.leave(self.underway)
            self.followed.end()

    async def _generate(self) -> None:
        underway = self.underway
        async with open_work(self._runtime, underway.asked.requests) as work:
            self.work = work
            if underway.cancelled:
                work.cancel("api")
            over = False
            while not over:
                for event in await work.receive():
                    over = isinstance(event, Finished | Failed)
                    frames = underway.writer.feed(event)
                    if over:
                        # Nobody is to know of the end before it is kept.
                        self.followed.last += frames
                    else:
                        self.followed.add(frames)


_INTERNAL = ErrorInfo(Code.INTERNAL_ERROR, "The server failed on this response.")


def advised(runtime: Runtime, name: Any) -> dict[str, Any]:
    """What the makers of a model advise, where the model and that are known by now."""
    if name is not None and not isinstance(name, str):
        return {}
    try:
        info = runtime.model(runtime.registry.resolve(name).model_id).info
    except RequestError:
        # Whoever runs the request says what is wrong with the name.
        return {}
    return {} if info is None else info.defaults


async def foresee(runtime: Runtime, asked: AskedResponse) -> None:
    """Refuse at once what would be refused later. Raises `RequestError`.

    A model that is not loaded yet is not waited for.
    """
    model_id = runtime.registry.resolve(asked.request.model).model_id
    info = runtime.model(model_id).info
    if info is not None:
        counted = await runtime.count(asked.request)
        token_room(info.context_window, counted.prompt_tokens, asked.request.max_tokens)


async def fitted(runtime: Runtime, asked: AskedResponse) -> AskedResponse:
    """The request with as many of its oldest items left out as it takes to fit, and no more.

    One that cannot be made to fit stays as it is, for it to be refused.
    """
    counted = await runtime.count(asked.request)
    info = runtime.model(counted.model).info
    if info is None or counted.prompt_tokens < info.context_window or not asked.spare:
        return asked
    low, high = 1, asked.spare
    if not await _fits(runtime, asked.without(high), info.context_window):
        return asked
    while low < high:
        middle = (low + high) // 2
        if await _fits(runtime, asked.without(middle), info.context_window):
            high = middle
        else:
            low = middle + 1
    return asked.without(low)


async def _fits(runtime: Runtime, asked: AskedResponse, window: int) -> bool:
    return (await runtime.count(asked.request)).prompt_tokens < window
