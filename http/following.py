"""The stream of a response that runs by itself: kept frame by frame, for any number of readers."""

from __future__ import annotations

import math
from collections.abc import Iterable

import trio

from headrace.http.pulled import PulledBody
from headrace.http.wire.frames import KEEP_ALIVE


class Followed:
    """Each frame is one event, so the number of an event is its place here."""

    def __init__(self, frames: Iterable[bytes] = (), *, ended: bool = False) -> None:
        self.frames = list(frames)
        self.ended = ended
        # The last frames, before anybody may see them.
        self.last: list[bytes] = []
        self._grown = trio.Event()

    @classmethod
    def of(cls, data: bytes) -> Followed:
        """A stream that has ended, from all of its frames in one."""
        frames = [frame + b"\n\n" for frame in data.split(b"\n\n") if frame]
        return cls(frames, ended=True)

    def whole(self) -> bytes:
        """All frames, those included that are still held back."""
        return b"".join([*self.frames, *self.last])

    def add(self, frames: Iterable[bytes]) -> None:
        self.frames += frames
        self._wake()

    def end(self) -> None:
        """Show the last frames."""
        self.frames += self.last
        self.last, self.ended = [], True
        self._wake()

    def _wake(self) -> None:
        grown, self._grown = self._grown, trio.Event()
        grown.set()

    async def wait_beyond(self, count: int) -> list[bytes]:
        """The frames after so many; none where the stream has ended."""
        while len(self.frames) <= count and not self.ended:
            await self._grown.wait()
        return self.frames[count:]


class Following(PulledBody):
    """One reader of such a stream. Its leaving ends nothing."""

    def __init__(self, followed: Followed, begin: int, silence_seconds: float) -> None:
        self._followed = followed
        self._place = begin
        self._silence_seconds = silence_seconds or math.inf

    async def __anext__(self) -> bytes:
        with trio.move_on_after(self._silence_seconds):
            frames = await self._followed.wait_beyond(self._place)
            await trio.lowlevel.checkpoint()
            if not frames:
                raise StopAsyncIteration
            self._place += len(frames)
            return b"".join(frames)
        return KEEP_ALIVE
