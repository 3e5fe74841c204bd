"""A worker dies in the middle of eight streams of each protocol: what each client is told.

One more protocol is one more row of `PROTOCOLS`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import pytest
import trio

from headrace.actors.patience import Patience
from headrace.runtime.testing.planned import WorkerModel
from headrace.runtime.testing.site import Caller, Reply, http
from headrace.runtime.testing.workers import WorkerSite, open_workers

ONE = WorkerModel(id="one")
# Its stream has to last longer than the story.
OTHER = WorkerModel(id="other", decode_seconds=0.1)
STREAMS = 8
CODE = "engine_unavailable"


# ---- protocols ----------------------------------------------------------------------------------


def openai_frame(reply: Reply) -> None:
    """One error as the last frame, and no `[DONE]`."""
    assert sum('"error"' in frame for frame in reply.frames) == 1, reply.frames[-4:]
    assert "[DONE]" not in reply.body.decode()
    error = json.loads(reply.frames[-1].removeprefix("data: "))["error"]
    assert error["code"] == error["type"] == CODE


def openai_answer(reply: Reply) -> None:
    error = reply.json["error"]
    assert error["code"] == error["type"] == CODE
    assert error["details"] == {"state": "restarting"}


def responses_frame(reply: Reply) -> None:
    """One `error` event, and `response.failed` as the last."""
    names = [frame.splitlines()[0] for frame in reply.frames]
    assert names.count("event: error") == 1
    assert names[-2:] == ["event: error", "event: response.failed"]
    error, failed = (
        json.loads(frame.splitlines()[1].removeprefix("data: ")) for frame in reply.frames[-2:]
    )
    assert error["code"] == CODE
    assert failed["response"]["status"] == "failed"


def anthropic_frame(reply: Reply) -> None:
    """One `error` event as the last, and no `message_stop`."""
    names = [frame.splitlines()[0] for frame in reply.frames]
    assert names.count("event: error") == 1
    assert "event: message_stop" not in names
    assert names[-1] == "event: error"
    anthropic_error(json.loads(reply.frames[-1].splitlines()[1].removeprefix("data: ")))


def anthropic_answer(reply: Reply) -> None:
    anthropic_error(reply.json)
    assert reply.json["error"]["details"] == {"state": "restarting"}


def anthropic_error(body: Any) -> None:
    assert body["type"] == "error"
    assert (body["error"]["type"], body["error"]["code"]) == ("api_error", CODE)


@attrs.frozen
class Protocol:
    """`fields` ask for text without end; `first` is in a stream as soon as some has come.

    `ends` checks a stream that broke off, `answers` what came in place of an answer in one piece.
    """

    path: str
    fields: dict[str, Any]
    first: bytes
    ends: Callable[[Reply], None]
    answers: Callable[[Reply], None]

    def asking(self, model: str, *, stream: bool) -> bytes:
        body = {"model": model, "stream": stream, **self.fields}
        return http("POST", self.path, json.dumps(body).encode())


MESSAGES = {"messages": [{"role": "user", "content": "Hi"}]}
PROTOCOLS = (
    Protocol("/v1/chat/completions", MESSAGES, b'"content":"A', openai_frame, openai_answer),
    Protocol("/v1/completions", {"prompt": "Hi"}, b'"text":"A', openai_frame, openai_answer),
    Protocol(
        "/v1/messages",
        {**MESSAGES, "max_tokens": 4000},
        b'"text":"A',
        anthropic_frame,
        anthropic_answer,
    ),
    Protocol("/v1/responses", {"input": "Hi"}, b'"delta":"A', responses_frame, openai_answer),
)


# ---- faults -------------------------------------------------------------------------------------


Fault: TypeAlias = Callable[[WorkerSite], None]


def killed(site: WorkerSite) -> None:
    site.kill("one", signal.SIGKILL)


def stopped(site: WorkerSite) -> None:
    site.kill("one", signal.SIGSTOP)


def starved(site: WorkerSite) -> None:
    Path(os.environ["STARVING_FILE"]).touch()


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on the address space")
# How long a worker may be silent: much longer than one on a busy machine is by itself.
SILENCE_SECONDS = 6.0
FAULTS = [
    pytest.param(killed, {signal.SIGKILL}, id="kill -9"),
    pytest.param(stopped, {signal.SIGKILL}, id="SIGSTOP"),
    pytest.param(starved, {signal.SIGSEGV, signal.SIGABRT}, id="a failed allocation", marks=LINUX),
]


# ---- the story ----------------------------------------------------------------------------------


@attrs.define
class Client:
    """One request of one protocol, and how it ended."""

    protocol: Protocol
    caller: Caller
    stream: bool
    received: bytes = b""

    async def begin(self) -> None:
        await self.caller.send(self.protocol.asking("one", stream=self.stream))
        if self.stream:
            self.received = await self.caller.read_until(self.protocol.first)

    async def end(self) -> None:
        self.received += await self.caller.read_to_end()

    def check(self) -> None:
        reply = Reply.of(self.received)
        assert reply.status == (200 if self.stream else 502)
        (self.protocol.ends if self.stream else self.protocol.answers)(reply)


async def together(doing: Iterable[Callable[[], Awaitable[None]]]) -> None:
    async with trio.open_nursery() as nursery:
        for one in doing:
            nursery.start_soon(one)


@asynccontextmanager
async def clients(site: WorkerSite) -> AsyncIterator[list[Client]]:
    """Eight streams of each protocol in their middle, and one answer in one piece."""
    async with AsyncExitStack() as stack:
        found = [
            Client(protocol, await stack.enter_async_context(site.dial()), number < STREAMS)
            for protocol in PROTOCOLS
            for number in range(STREAMS + 1)
        ]
        await together(client.begin for client in found)
        await site.until(lambda: site.model("one").batch.running_rows == len(found))
        yield found


@pytest.mark.parametrize(("fault", "signals"), FAULTS)
async def test_each_request_hears_of_it_once_and_the_model_comes_back_by_itself_b7_b10(
    fault: Fault,
    signals: set[signal.Signals],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("STARVING_FILE", str(tmp_path / "now"))
    rows = len(PROTOCOLS) * (STREAMS + 1)
    async with (
        open_workers(
            ONE,
            OTHER,
            worker_loader="starving:loader",
            patience=Patience(most_seconds=SILENCE_SECONDS),
            max_rows=rows,
        ) as site,
        site.dial() as undisturbed,
    ):
        await undisturbed.send(PROTOCOLS[0].asking("other", stream=True))
        async with clients(site) as found:
            pid = site.pid("one")
            fault(site)
            with trio.fail_after(60):
                await together(client.end for client in found)
        for client in found:
            client.check()
        # A death is heard of by itself; patience is for one that stands still.
        assert len(site.runtime.trace.events("worker.silent")) == (fault is stopped)
        # Nobody asks for anything, and it is there again.
        await site.ready("one")
        engine = await site.get("/engine")
        assert (engine["state"], engine["restarts"]) == ("ready", 1)
        assert engine["pid"] != pid
        assert engine["last_exit"]["signal"] in signals
        assert site.model("other").worker.restarts == 0
        undisturbed.received.clear()
        await undisturbed.read_until(b'"content":"')
        assert site.runtime.statistics().leases == 1
