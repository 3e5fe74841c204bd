"""The machine on which scripted models run: it spends virtual seconds and virtual bytes.

Work is reported here while it is called and passes as time afterwards, so a call's results come
at its end, as they do on a real device.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio

from headrace.runtime.ports import Memory


class AllocationFailed(RuntimeError):
    """The device has no room; the message gives the bytes asked for and the bytes there are."""


@attrs.define
class ScriptedDevice:
    """Seconds and bytes of every scripted model that was made with it.

    By default time is virtual and passes in `elapse`, which `InlineThread` awaits after each
    call. With `sleep=time.sleep` the calls themselves take that time, on a real thread.
    """

    # None means no limit: an allocation never fails.
    limit_bytes: int | None = None
    sleep: Callable[[float], None] | None = None
    active_bytes: int = attrs.field(default=0, init=False)
    peak_bytes: int = attrs.field(default=0, init=False)
    # Seconds that were spent in all; a hang is not counted.
    busy_seconds: float = attrs.field(default=0.0, init=False)
    # A call hangs, and nobody has released it.
    hung: bool = attrs.field(default=False, init=False)
    _pending_seconds: float = attrs.field(default=0.0, init=False)
    _pending_hang: bool = attrs.field(default=False, init=False)
    _released: trio.Event = attrs.field(factory=trio.Event, init=False)

    def spend(self, seconds: float) -> None:
        """Let the call in progress take so much longer."""
        self.busy_seconds += seconds
        if self.sleep is None:
            self._pending_seconds += seconds
        else:
            self.sleep(seconds)

    def hang(self) -> None:
        """Let the call in progress never return, or not before `release`. Others go on."""
        self.hung = True
        if self.sleep is None:
            self._pending_hang = True
        else:
            released = self._released
            while not released.is_set():
                self.sleep(0.001)

    def release(self) -> None:
        """End every hang."""
        self.hung = False
        self._released.set()
        self._released = trio.Event()

    async def elapse(self) -> None:
        """Wait for as long as the call that was just made takes."""
        seconds, self._pending_seconds = self._pending_seconds, 0.0
        hangs, self._pending_hang = self._pending_hang, False
        if hangs:
            await self._released.wait()
        await trio.sleep(seconds)

    def allocate(self, count_bytes: int) -> None:
        if self.limit_bytes is not None and self.active_bytes + count_bytes > self.limit_bytes:
            room = self.limit_bytes - self.active_bytes
            raise AllocationFailed(f"cannot allocate {count_bytes} bytes, {room} are left")
        self.active_bytes += count_bytes
        self.peak_bytes = max(self.peak_bytes, self.active_bytes)

    def free(self, count_bytes: int) -> None:
        self.active_bytes -= count_bytes

    def memory(self) -> Memory:
        return Memory(active_bytes=self.active_bytes, peak_bytes=self.peak_bytes)
