"""The log of a job as an event stream: what was, then what comes, to its end."""

from __future__ import annotations

import math

import msgspec
import trio

from headrace.actors.jobs import Event, Job, Jobs
from headrace.actors.jobs.job import end_event
from headrace.actors.jobs.place import Spot
from headrace.http.pulled import PulledBody
from headrace.http.wire.frames import KEEP_ALIVE
from headrace.runtime.errors import RequestError

# How soon a client whose connection broke is to come back.
RETRY = b"retry: 1500\n\n"
END = b"event: end\ndata: {}\n\n"
UNKNOWN: Event = {"type": "failed", "ts": None, "error": "job not found"}
TERMINAL = ("done", "failed")


class JobStream(PulledBody):
    """`begin` is how many events the reader has seen: an event's id is its number in the log.

    It ends behind the job's last event. At a shutdown it ends without that, and the reader asks
    the next server for the rest. Its leaving ends nothing.
    """

    def __init__(self, jobs: Jobs, name: str | None, begin: int, silence_seconds: float) -> None:
        self._jobs = jobs
        self._name = name
        self._begin = begin
        self._spot = Spot()
        self._silence_seconds = silence_seconds or math.inf
        self._ready = [RETRY]
        # The type of the last event of the log so far.
        self._last = ""
        self._ended = False

    async def __anext__(self) -> bytes:
        deadline = trio.current_time() + self._silence_seconds
        while not self._ready:
            if self._ended:
                await trio.lowlevel.checkpoint()
                raise StopAsyncIteration
            with trio.move_on_at(deadline) as silence:
                await self._read()
            if silence.cancelled_caught:
                return KEEP_ALIVE
        await trio.lowlevel.checkpoint()
        frames, self._ready = b"".join(self._ready), []
        return frames

    async def _read(self) -> None:
        if self._name is None:
            self._end(UNKNOWN)
            await trio.lowlevel.checkpoint()
            return
        try:
            lines, after = await self._jobs.read(self._name, self._spot)
            if lines:
                self._take(lines, after)
                return
            job = await self._jobs.get(self._name)
        except RequestError:
            # The server is closing.
            self._ended = True
            return
        self._conclude(job)

    def _take(self, lines: list[bytes], after: Spot) -> None:
        for number, line in enumerate(lines, start=self._spot.lines + 1):
            if number > self._begin:
                self._ready.append(b"id: %d\ndata: %s\n\n" % (number, line))
        self._spot = after
        self._last = msgspec.json.decode(lines[-1])["type"]

    def _conclude(self, job: Job | None) -> None:
        """There will be no more lines. An end that is not among them is made from the row."""
        if job is not None and not job.ended:
            self._ended = True
        elif job is None or self._last in TERMINAL:
            self._end(None)
        else:
            self._end(end_event(job))

    def _end(self, event: Event | None) -> None:
        number = self._spot.lines + 1
        if event is not None and number > self._begin:
            data = msgspec.json.encode(event)
            self._ready.append(b"id: %d\ndata: %s\n\n" % (number, data))
        self._ready.append(END)
        self._ended = True
