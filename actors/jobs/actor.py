"""The actor that owns the jobs. Its store works on a thread of its own; jobs are its children.

A row is written before anybody is told of it, and the row is the truth: its log may end earlier.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import attrs
import trio

from headrace.actors.jobs.book import Book
from headrace.actors.jobs.ending import CLOSING, Ending, failed, first, foreseen, words
from headrace.actors.jobs.job import Event, Job
from headrace.actors.jobs.kind import JobContext, JobKind, checked
from headrace.actors.jobs.place import Spot
from headrace.actors.jobs.running import Run, run_job
from headrace.actors.jobs.stamps import Stamps
from headrace.actors.jobs.store import JobStore
from headrace.runtime.actor import Actor, drain, fail_reply
from headrace.runtime.cleanup import bounded_cleanup
from headrace.runtime.errors import ActorDied, Code, RequestError
from headrace.runtime.reply import Reply
from headrace.runtime.thread import Thread, ThreadFactory
from headrace.runtime.trace import Trace

if TYPE_CHECKING:
    from headrace.actors.runtime import Runtime

T = TypeVar("T")

# For the ends of jobs to be written at a shutdown.
LAST_WRITES_SECONDS = 5.0
ID_DIGITS = 16


@attrs.frozen
class _Submit:
    kind: JobKind[Any]
    config: dict[str, Any]
    reply: Reply[Job]


@attrs.frozen
class _Cancel:
    name: str
    reply: Reply[Job | None]


@attrs.frozen
class _Note:
    name: str
    event: Event
    progress: float | None
    message: str | None
    reply: Reply[None]


@attrs.frozen
class _Ended:
    name: str
    ending: Ending


@attrs.frozen
class _Call(Generic[T]):
    """Something that the store is to do in its turn."""

    act: Callable[[JobStore], T]
    reply: Reply[T]


@attrs.frozen
class _Stop:
    reply: Reply[None]


_Message: TypeAlias = _Submit | _Cancel | _Note | _Ended | _Call[Any] | _Stop


class Jobs(Actor[_Message]):
    """Messages are carried out one after the other, so what was told is there for who asks.

    `queue_limit` is how many jobs of one kind may wait. `attach` comes before `serve`.
    """

    def __init__(
        self,
        store: JobStore,
        threads: ThreadFactory,
        trace: Trace,
        *,
        queue_limit: int,
        stamps: Stamps,
    ) -> None:
        super().__init__("jobs")
        self.kinds: dict[str, JobKind[Any]] = {}
        # How many were left by a server that ended without a word.
        self.zombies = store.zombies
        self.stamps = stamps
        self._store = store
        self._threads = threads
        self._trace = trace
        self._queue_limit = queue_limit
        self._book = Book(queue_limit)
        self._runs: dict[str, Run] = {}
        # Ends that could not be written down, since the disk was full.
        self._unwritten: dict[str, Job] = {}
        # Set at the next change of any job.
        self._changed = trio.Event()
        self._stopped = False
        self._stop_replies: list[Reply[None]] = []

    def attach(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def register(self, kind: JobKind[Any]) -> None:
        """Offer a kind of job; another of its name is replaced."""
        self.kinds[kind.name] = kind

    # ---- what others ask; all raise `RequestError` (closed) at a shutdown -------------------

    async def submit(self, kind: str, config: dict[str, Any] | None = None) -> Job:
        """Queue a job; its row is written when this returns.

        Raises `RequestError`: invalid_value for an unknown kind or a bad config, queue_full.
        """
        known = self.kinds.get(kind)
        if known is None:
            text = f"There is no kind of job {kind!r}; there are: {', '.join(sorted(self.kinds))}."
            raise RequestError(Code.INVALID_VALUE, text, param="kind")
        checked(known, config or {})
        reply: Reply[Job] = Reply()
        return await self.ref.ask_open(_Submit(known, config or {}, reply), reply)

    async def cancel(self, name: str) -> Job | None:
        """End a job's scope and wait for that. One that has ended stays as it is; None: unknown."""
        reply: Reply[Job | None] = Reply()
        return await self.ref.ask_open(_Cancel(name, reply), reply)

    async def get(self, name: str) -> Job | None:
        live = self._book.get(name) or self._unwritten.get(name)
        return live or await self.call(lambda store: store.get(name))

    async def newest(
        self, limit: int, kind: str | None = None, before: str | None = None
    ) -> list[Job]:
        """The newest first."""
        jobs = await self.call(lambda store: store.newest(limit, kind, before))
        return [self._unwritten.get(job.id) or job for job in jobs]

    async def wait(self, name: str) -> Job | None:
        """A job once it has ended; None: unknown."""
        while self._book.get(name) is not None and not self._stopped:
            await self._changed.wait()
        return await self.get(name)

    async def read(self, name: str, spot: Spot) -> tuple[list[bytes], Spot]:
        """The lines of a job's log from a place on, once there are any; none: there will be none.

        At a shutdown readers are sent away.
        """
        while not self._stopped:
            changed, ended = self._changed, self._book.get(name) is None
            lines, after = await self.call(lambda store: store.read(name, spot))
            if lines or ended:
                return lines, after
            await changed.wait()
        await trio.lowlevel.checkpoint()
        return [], spot

    async def call(self, act: Callable[[JobStore], T]) -> T:
        """Have the store do something, on its thread. Raises what `act` raises, too."""
        reply: Reply[T] = Reply()
        return await self.ref.ask_open(_Call(act, reply), reply)

    async def note(
        self, name: str, event: Event, progress: float | None = None, message: str | None = None
    ) -> None:
        """For a job's context. Raises `OSError`."""
        reply: Reply[None] = Reply()
        await self.ref.ask_open(_Note(name, event, progress, message, reply), reply)

    def close(self) -> None:
        """Begin to stop: no further jobs, those there are end, and readers are sent away."""
        self.ref.tell(_Stop(Reply()))

    async def stop(self) -> None:
        """The same, and wait until all have ended, for a bounded time. For a clean-up."""
        reply: Reply[None] = Reply()
        await self.ref.conclude(_Stop(reply), reply)

    def counts(self) -> dict[str, tuple[int, int]]:
        """For each kind with jobs: how many wait and how many run."""
        return self._book.counts()

    # ---- the actor -------------------------------------------------------------------------

    async def serve(self) -> None:
        """Carry messages out until cancelled; then write down how the jobs ended, and close."""
        async with self._threads("jobs") as thread:
            self._thread: Thread = thread
            try:
                async with trio.open_nursery() as children:
                    self._children = children
                    async for message in self._mailbox:
                        await self._carry_out(message)
            finally:
                self._stopped = True
                with bounded_cleanup(LAST_WRITES_SECONDS):
                    for message in drain(self._mailbox):
                        await self._carry_out(message)
                    await self._drop_queued()
                    await thread.run(self._store.close)
                self._change()
                self._close()

    async def _carry_out(self, message: _Message) -> None:
        try:
            match message:
                case _Submit():
                    await self._on_submit(message)
                case _Cancel(name, reply):
                    await self._on_cancel(name, reply)
                case _Note():
                    await self._on_note(message)
                case _Ended(name, ending):
                    await self._on_ended(name, ending)
                case _Call():
                    message.reply.set(await self._thread.run(message.act, self._store))
                case _Stop(reply):
                    await self._on_stop(reply)
        except ActorDied:
            fail_reply(message, self.name)
        except trio.Cancelled:
            fail_reply(message, self.name)
            raise
        except Exception as error:
            self._fail(message, error)

    def _fail(self, message: _Message, error: Exception) -> None:
        if not isinstance(error, RequestError):
            self._trace.emit("jobs.failed", error=repr(error))
            if isinstance(message, _Submit | _Cancel):
                error = RequestError(Code.INTERNAL_ERROR, words(error))
        if not isinstance(message, _Ended):
            message.reply.fail(error)

    async def _on_submit(self, message: _Submit) -> None:
        kind = message.kind.name
        if self._stopped:
            raise RequestError(Code.CLOSED, "The server is closing.")
        if self._book.is_full(kind):
            text = f"All {self._queue_limit} places for jobs of kind {kind!r} that wait are taken."
            raise RequestError(Code.QUEUE_FULL, text, param="kind")
        job = Job(
            id=f"job_{self.stamps.token(ID_DIGITS)}",
            kind=kind,
            config=message.config,
            created_at=self.stamps.now(),
        )
        await self._thread.run(self._store.add, job)
        self._book.add(job)
        message.reply.set(job)
        self._trace.emit("job.queued", kind=kind)
        await self._begin(kind)

    async def _on_cancel(self, name: str, reply: Reply[Job | None]) -> None:
        run, job = self._runs.get(name), self._book.get(name)
        if run is not None:
            run.asked.append(reply)
            run.scope.cancel("the job is cancelled")
        elif job is not None:
            reply.set(await self._end(self._book.drop(name, self.stamps.now())))
        else:
            found = self._unwritten.get(name)
            reply.set(found or await self._thread.run(self._store.get, name))

    async def _on_note(self, message: _Note) -> None:
        job = None
        if message.progress is not None or message.message is not None:
            job = self._book.advance(message.name, message.progress, message.message)
        await self._thread.run(self._store.note, job, message.name, message.event)
        self._change()
        message.reply.set(None)

    async def _on_ended(self, name: str, ending: Ending) -> None:
        run, now = self._runs.pop(name), self.stamps.now()
        if ending.status == "done":
            job = self._book.done(name, now, ending.result)
        elif ending.status == "failed":
            job = self._book.failed(name, now, ending.error, ending.result.summary)
        else:
            job = self._book.cancelled(name, now, ending.error)
        job = await self._end(job)
        for reply in run.asked:
            reply.set(job)
        await self._begin(job.kind)
        self._tell_all_ended()

    async def _on_stop(self, reply: Reply[None]) -> None:
        self._stopped = True
        self._change()
        for run in self._runs.values():
            run.stop()
        await self._drop_queued()
        self._stop_replies.append(reply)
        self._tell_all_ended()

    def _tell_all_ended(self) -> None:
        if not self._runs:
            for reply in self._stop_replies:
                reply.set(None)
            self._stop_replies.clear()

    async def _drop_queued(self) -> None:
        for job in self._book.queued():
            await self._end(self._book.drop(job.id, self.stamps.now(), CLOSING.error))

    async def _begin(self, kind: str) -> None:
        """Start the kind's next job, if it is time."""
        while not self._stopped and (job := self._book.begin(kind, self.stamps.now())):
            try:
                folder = await self._thread.run(self._store.start, job)
            except (OSError, sqlite3.Error) as error:
                ending = failed(error)
                await self._end(self._book.failed(job.id, self.stamps.now(), ending.error))
                continue
            self._change()
            self._start(job, folder)
            return

    def _start(self, job: Job, folder: Path) -> None:
        kind, run = self.kinds[job.kind], Run()
        self._runs[job.id] = run
        context = JobContext(job.id, checked(kind, job.config), folder, self._runtime, self)

        def ended(ending: Ending) -> None:
            self.ref.tell(_Ended(job.id, ending))

        start = self._children.start_soon
        start(context.tell_progress, name=f"progress of {job.id}")
        start(run_job, kind, context, run, self._crashed, ended, name=f"job {job.id}")

    async def _end(self, job: Job) -> Job:
        """Write down how a job ended, and give its row as it now is."""
        try:
            await self._thread.run(self._store.end, job)
        except (OSError, sqlite3.Error) as error:
            # Nobody would find it done later, so it is not done now.
            job = attrs.evolve(job, status="failed", error=failed(error).error, output=None)
            self._unwritten[job.id] = job
        self._trace.emit("job.ended", kind=job.kind, status=job.status)
        self._change()
        return job

    def _crashed(self, error: Exception) -> None:
        """What nobody foresaw is a bug in the kind, and told here only."""
        if not foreseen(first(error)):
            self._trace.emit("job.crashed", error=repr(first(error)))

    def _change(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def __repr__(self) -> str:
        return f"<Jobs {self._book!r}>"
