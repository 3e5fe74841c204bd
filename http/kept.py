"""Responses under way, by their ids, and what is kept of them in the runtime's history."""

from __future__ import annotations

import time
from typing import Any, Protocol

import attrs
import msgspec
import trio

from headrace.actors.history import History
from headrace.actors.history_store import State, StoredResponse
from headrace.http.following import Followed
from headrace.http.wire.openai_responses import AskedResponse, Known, Wanted
from headrace.http.wire.responses_writer import ResponseWriter, interrupted
from headrace.http.work import Work
from headrace.runtime.contracts import CancelReason, Failed
from headrace.runtime.errors import Code, ErrorInfo, RequestError

STATES: dict[str, State] = {
    "completed": "finished",
    "incomplete": "finished",
    "failed": "failed",
    "cancelled": "cancelled",
}
CANCELLED = ErrorInfo(Code.REQUEST_CANCELLED, "The response was cancelled.")


class Runs(Protocol):
    """What runs a response: an exchange, or a run in the background."""

    work: Work | None


@attrs.define(eq=False)
class Underway:
    """A response while it runs. `followed` is the stream of one that runs in the background."""

    asked: AskedResponse
    writer: ResponseWriter
    runs: Runs
    followed: Followed | None = None
    # Set when it has ended and what is to be kept of it is kept.
    settled: trio.Event = attrs.field(factory=trio.Event)
    cancelled: bool = False

    def cancel(self, reason: CancelReason) -> None:
        self.cancelled = True
        if self.runs.work is not None:
            self.runs.work.cancel(reason)


class Kept:
    """The responses of one server that are to be found by their ids."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._underway: dict[str, Underway] = {}

    # ---- while they run --------------------------------------------------------------------

    def begin(self, underway: Underway) -> Underway:
        asked = underway.asked
        if asked.store:
            self._underway[asked.response_id] = underway
        return underway

    def underway(self, name: str) -> Underway | None:
        return self._underway.get(name)

    async def keep_running(self, underway: Underway) -> None:
        """Write down that a response runs, for a server that may not see its end."""
        await self._history.put(_stored(underway, "running"), time.time())

    async def keep(self, underway: Underway) -> None:
        """Write down how a response ended. From then on it is found there."""
        if underway.asked.store:
            await self._history.put(_ended(underway), time.time())
        self._settle(underway)

    def leave(self, underway: Underway) -> None:
        """Nobody waits for the response any more: if it has not ended, it is cancelled."""
        if underway.settled.is_set():
            return
        if underway.writer.status not in STATES:
            underway.writer.feed(Failed(CANCELLED))
        if underway.asked.store:
            self._history.tell_put(_ended(underway), time.time())
        self._settle(underway)

    def forget(self, underway: Underway) -> None:
        """The response never came to be: its client was told of an error and of no id."""
        self._settle(underway)

    def _settle(self, underway: Underway) -> None:
        self._underway.pop(underway.asked.response_id, None)
        underway.settled.set()

    # ---- by their ids ----------------------------------------------------------------------

    async def known(self, wanted: Wanted) -> Known:
        """What a body refers to. Raises `RequestError`: previous_response_not_found and
        previous_response_not_usable. An item that is not there is for the reader to miss."""
        conversation: list[dict[str, Any]] = []
        if wanted.previous is not None:
            conversation = await self._conversation(wanted.previous)
        items = {item["id"]: item for item in conversation if item.get("id")}
        for name in wanted.items:
            if name not in items:
                items |= await self._holding(name)
        return Known(tuple(conversation), items, clock=time.time)

    async def _conversation(self, name: str) -> list[dict[str, Any]]:
        param = "previous_response_id"
        stored = None if name in self._underway else await self._history.get(name, time.time())
        if stored is None and name not in self._underway:
            text = "No response with this id is stored."
            raise RequestError(Code.PREVIOUS_RESPONSE_NOT_FOUND, text, param=param)
        if stored is None or stored.state != "finished":
            text = "The previous response did not end, or not well."
            raise RequestError(Code.PREVIOUS_RESPONSE_NOT_USABLE, text, param=param)
        items: list[dict[str, Any]] = msgspec.json.decode(stored.conversation)
        return items

    async def _holding(self, name: str) -> dict[str, dict[str, Any]]:
        stored = await self._history.holder(name, time.time())
        if stored is None or not stored.conversation:
            return {}
        items: list[dict[str, Any]] = msgspec.json.decode(stored.conversation)
        return {item["id"]: item for item in items if item.get("id") == name}

    async def response(self, name: str) -> dict[str, Any]:
        """A response in whatever state. Raises `RequestError` (response_not_found)."""
        underway = self._underway.get(name)
        if underway is not None:
            await trio.lowlevel.checkpoint()
            return underway.writer.response
        return body_of(await self.stored(name))

    async def stored(self, name: str) -> StoredResponse:
        """Raises `RequestError` (response_not_found)."""
        found = await self._history.get(name, time.time())
        if found is None:
            raise missing()
        return found

    async def input(self, name: str) -> list[dict[str, Any]]:
        """The items of a response's own input. Raises `RequestError` (response_not_found)."""
        underway = self._underway.get(name)
        if underway is not None:
            return list(underway.asked.input)
        items: list[dict[str, Any]] = msgspec.json.decode((await self.stored(name)).input)
        return items

    async def cancel(self, name: str) -> dict[str, Any]:
        """The response, once nothing of it runs. Raises `RequestError` (response_not_found)."""
        underway = self._underway.get(name)
        if underway is not None:
            underway.cancel("api")
            await underway.settled.wait()
        return await self.response(name)

    async def cancel_run(self, name: str) -> str | None:
        """End a run in the background by the id of its request or its response, and say how it
        ended; None where there is no such run."""
        found = [
            u for u in self._underway.values() if name in (u.asked.request.id, u.asked.response_id)
        ]
        if not found:
            await trio.lowlevel.checkpoint()
            return None
        found[0].cancel("api")
        await found[0].settled.wait()
        return "cancelled" if found[0].writer.status == "cancelled" else "finished"

    def response_id(self, request_id: str) -> str | None:
        """Of a response that runs."""
        ids = (
            u.asked.response_id for u in self._underway.values() if u.asked.request.id == request_id
        )
        return next(ids, None)

    async def delete(self, name: str) -> None:
        """Raises `RequestError` (response_not_found)."""
        underway = self._underway.get(name)
        if underway is not None:
            underway.cancel("api")
            await underway.settled.wait()
        if not await self._history.delete(name):
            raise missing()

    def __repr__(self) -> str:
        return f"<Kept {len(self._underway)} under way>"


def missing() -> RequestError:
    return RequestError(Code.RESPONSE_NOT_FOUND, "No response with this id is stored.", param="id")


def body_of(stored: StoredResponse) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(stored.body)
    return interrupted(body) if stored.state == "interrupted" else body


def _ended(underway: Underway) -> StoredResponse:
    return _stored(underway, STATES[underway.writer.status])


def _stored(underway: Underway, state: State) -> StoredResponse:
    response, asked = underway.writer.response, underway.asked
    conversation = [*asked.conversation, *response["output"]] if state == "finished" else []
    encode = msgspec.json.encode
    return StoredResponse(
        asked.response_id,
        state,
        encode(response),
        encode(asked.input),
        encode(conversation) if conversation else b"",
        b"" if underway.followed is None else underway.followed.whole(),
        tuple(item["id"] for item in conversation if item.get("id")),
    )
