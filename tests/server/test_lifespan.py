"""The app under hypercorn alone, as its own command line runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import pytest
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio import serve
from hypercorn.utils import LifespanFailureError, load_application

from headrace.actors.runtime import Runtime
from headrace.http.app import App, create_app
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.testing.runtime import open_scripted
from headrace.runtime.testing.site import Caller, Reply, chat


def config() -> Config:
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.errorlog = None
    return config


async def test_the_app_opens_its_runtime_while_it_is_served() -> None:
    opened: list[str] = []

    @asynccontextmanager
    async def opener() -> AsyncIterator[Runtime]:
        async with open_scripted() as runtime:
            opened.append("open")
            yield runtime
        opened.append("closed")

    app = create_app(opener=opener)
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        run = partial(serve, app, config(), shutdown_trigger=stop.wait)
        (address,) = await nursery.start(run)
        assert opened == ["open"]
        caller = Caller(await trio.open_tcp_stream("127.0.0.1", int(address.rpartition(":")[2])))
        async with caller.stream:
            await caller.send(chat(max_tokens=3, stream=True))
            reply = Reply.of(await caller.read_to_end())
        assert len(reply.text) == 3
        stop.set()
    assert opened == ["open", "closed"]
    with pytest.raises(RuntimeError, match="not being served"):
        _ = app.edge


async def test_a_runtime_that_does_not_open_stops_the_start() -> None:
    def opener() -> AbstractAsyncContextManager[Runtime]:
        raise RequestError(Code.LOAD_FAILED, "there is no such model")

    with pytest.RaisesGroup(LifespanFailureError, flatten_subgroups=True):
        await serve(create_app(opener=opener), config())


def test_the_name_that_hypercorn_is_given_makes_an_app() -> None:
    wrapped = load_application("headrace.http.app:create_app()", 0)
    assert isinstance(wrapped, ASGIWrapper)
    assert isinstance(wrapped.app, App)
