"""An actor: a typed mailbox and the one task that owns the state behind it.

Telling is sync and never waits, so it works in `finally` and in a cancelled scope. A mailbox has
no bound of its own: it holds control messages, whose number is bounded by admission (a request
owns a fixed number of them), and a bound here could only be answered by losing a release.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, Generic, TypeVar

import trio

from headrace.runtime.cleanup import bounded_cleanup
from headrace.runtime.errors import ActorDied, Code, RequestError
from headrace.runtime.reply import Reply

CONCLUDE_SECONDS = 10.0

M = TypeVar("M")
T = TypeVar("T")


class Ref(Generic[M]):
    """The handle that others hold of an actor. It stays valid after the actor's death."""

    def __init__(self, name: str, send: trio.MemorySendChannel[M]) -> None:
        self.name = name
        self._send = send

    def tell(self, message: M) -> None:
        """Put a message in the mailbox. A question told to a dead actor fails at once."""
        try:
            self._send.send_nowait(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            fail_reply(message, self.name)

    async def ask(self, message: M, reply: Reply[T]) -> T:
        """Tell a message that carries `reply` and wait for the answer.

        Raises what the actor answers, or `ActorDied`. Cancelling the wait does not take the
        message back: whoever asks for a resource also tells its release (the ticket rule).
        """
        self.tell(message)
        return await reply.wait()

    async def ask_open(self, message: M, reply: Reply[T]) -> T:
        """The same for those who answer clients: raises `RequestError` (closed) in place of
        `ActorDied`."""
        try:
            return await self.ask(message, reply)
        except ActorDied:
            raise RequestError(Code.CLOSED, "The server is closing.") from None

    async def conclude(  # noqa: ASYNC910 - a release is never cut short
        self, message: M, reply: Reply[None]
    ) -> None:
        """Tell a release from a clean-up and wait until it has been carried out.

        A dead actor holds nothing, so its answer counts too. The wait is bounded; handlers never
        wait, so only a stuck loop could outlast it.
        """
        self.tell(message)
        with bounded_cleanup(CONCLUDE_SECONDS), suppress(ActorDied):
            await reply.wait()

    def __repr__(self) -> str:
        return f"<Ref {self.name}>"


class Actor(Generic[M]):
    """Subclasses give `handle` and may give `abandon`. The mailbox exists from the start, so
    messages told before `serve` runs are kept."""

    def __init__(self, name: str) -> None:
        self.name = name
        send, self._mailbox = trio.open_memory_channel[M](math.inf)
        self.ref: Ref[M] = Ref(name, send)

    async def serve(self) -> None:  # noqa: ASYNC910 - it waits for each message
        """Take messages one at a time until cancelled. A raise from `handle` is a crash."""
        try:
            async for message in self._mailbox:
                self._take(message)
        finally:
            self._close()

    def _take(self, message: M) -> None:
        try:
            self.handle(message)
        except BaseException:
            fail_reply(message, self.name)
            raise

    def handle(self, message: M) -> None:
        """Change state and tell others. Sync on purpose: no state change is split by a wait.

        Work that takes time goes to a child task which tells its result to this actor.
        """
        raise NotImplementedError

    def abandon(self) -> None:
        """Answer whatever is still owed when the actor goes. Must not raise or wait."""

    def _close(self) -> None:
        # Closing the mailbox first: what is told from now on fails at once instead of vanishing.
        pending = drain(self._mailbox)
        self._mailbox.close()
        for message in pending:
            fail_reply(message, self.name)
        self.abandon()

    def __repr__(self) -> str:
        waiting = self._mailbox.statistics().current_buffer_used
        return f"<{type(self).__name__} {self.name} | {waiting} messages>"


def drain(mailbox: trio.MemoryReceiveChannel[M]) -> list[M]:
    """All messages that are there now, without waiting."""
    messages: list[M] = []
    while True:
        try:
            messages.append(mailbox.receive_nowait())
        except (trio.WouldBlock, trio.EndOfChannel, trio.ClosedResourceError):
            return messages


def fail_reply(message: Any, name: str) -> None:
    reply = getattr(message, "reply", None)
    if isinstance(reply, Reply):
        reply.fail(ActorDied(name))
