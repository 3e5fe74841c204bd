"""The actor that owns the stored responses. Its store works on a thread of its own."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import attrs
import trio

from headrace.actors.database import MEMORY, StoreInUse
from headrace.actors.history_store import ResponseStore, StoredResponse, Usage
from headrace.runtime.actor import Actor, drain
from headrace.runtime.cleanup import bounded_cleanup
from headrace.runtime.errors import ActorDied, Code, RequestError, SettingError
from headrace.runtime.reply import Reply
from headrace.runtime.settings import Settings
from headrace.runtime.thread import Thread, ThreadFactory
from headrace.runtime.trace import Trace

T = TypeVar("T")

# For what was told before the end to be written.
LAST_WRITES_SECONDS = 5.0


@attrs.frozen
class _Put:
    stored: StoredResponse
    now: float
    reply: Reply[bool]


@attrs.frozen
class _Get:
    name: str
    now: float
    reply: Reply[StoredResponse | None]


@attrs.frozen
class _Holder:
    item: str
    now: float
    reply: Reply[StoredResponse | None]


@attrs.frozen
class _Delete:
    name: str
    reply: Reply[bool]


_Message: TypeAlias = _Put | _Get | _Holder | _Delete


class History(Actor[_Message]):
    """Messages are carried out one after the other, so what was told is there for who asks.

    A store that fails loses what it was to keep, not the answer: that is `put` giving False. It
    is an error where something was asked for.
    """

    def __init__(self, store: ResponseStore, threads: ThreadFactory, trace: Trace) -> None:
        super().__init__("history")
        self.usage = store.usage()
        self._store = store
        self._threads = threads
        self._trace = trace

    async def put(self, stored: StoredResponse, now: float) -> bool:
        """Keep a response; it is written when this returns. Raises `RequestError`."""
        reply: Reply[bool] = Reply()
        return await self.ref.ask_open(_Put(stored, now, reply), reply)

    def tell_put(self, stored: StoredResponse, now: float) -> None:
        """Keep a response that nobody waits for; works in a clean-up."""
        self.ref.tell(_Put(stored, now, Reply()))

    async def get(self, name: str, now: float) -> StoredResponse | None:
        """Raises `RequestError`, as all here."""
        reply: Reply[StoredResponse | None] = Reply()
        return await self.ref.ask_open(_Get(name, now, reply), reply)

    async def holder(self, item: str, now: float) -> StoredResponse | None:
        """The latest response in whose conversation an item stands."""
        reply: Reply[StoredResponse | None] = Reply()
        return await self.ref.ask_open(_Holder(item, now, reply), reply)

    async def delete(self, name: str) -> bool:
        reply: Reply[bool] = Reply()
        return await self.ref.ask_open(_Delete(name, reply), reply)

    async def serve(self) -> None:
        """Carry messages out until cancelled; then those that were told before, and close."""
        async with self._threads("history") as thread:
            try:
                async for message in self._mailbox:
                    await self._carry_out(thread, message)
            finally:
                with bounded_cleanup(LAST_WRITES_SECONDS):
                    for message in drain(self._mailbox):
                        await self._carry_out(thread, message)
                    await thread.run(self._store.close)
                self._close()

    async def _carry_out(self, thread: Thread, message: _Message) -> None:
        try:
            result, self.usage = await thread.run(_do, self._store, message)
        except ActorDied:
            message.reply.fail(ActorDied(self.name))
        except trio.Cancelled:
            message.reply.fail(ActorDied(self.name))
            raise
        except Exception as error:
            self._trace.emit("history.failed", error=repr(error))
            failure = RequestError(Code.INTERNAL_ERROR, "")
            _settle(message, False) if isinstance(message, _Put) else message.reply.fail(failure)
        else:
            _settle(message, result)


def _do(store: ResponseStore, message: _Message) -> tuple[Any, Usage]:
    """Carry a message out, on the store's thread."""
    match message:
        case _Put(stored, now):
            result: Any = store.put(stored, now)
        case _Get(name, now):
            result = store.get(name, now)
        case _Holder(item, now):
            result = store.holder(item, now)
        case _Delete(name):
            result = store.delete(name)
    return result, store.usage()


def _settle(message: _Message, result: Any) -> None:
    reply: Reply[Any] = message.reply
    reply.set(result)


async def open_store(settings: Settings) -> ResponseStore:
    """The store that the settings name, in memory unless that is a file.

    Raises `SettingError` where another process uses the file.
    """
    path = settings.responses_file or MEMORY

    def opened() -> ResponseStore:
        return ResponseStore(
            path,
            most_bytes=settings.responses_store_bytes,
            ttl_seconds=settings.responses_ttl_s,
        )

    if path == MEMORY:
        await trio.lowlevel.checkpoint()
        return opened()
    try:
        return await trio.to_thread.run_sync(opened)
    except StoreInUse:
        raise SettingError(f"responses_file: {path} is in use by another server") from None
    except OSError as error:
        raise SettingError(f"responses_file: {path}: {error.strerror}") from None
