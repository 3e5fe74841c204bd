"""The jobs that have not ended: which one runs, which wait. Pure: rows in, rows out.

Of each kind one runs at a time, in the order in which they were asked for.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from headrace.actors.jobs.job import CANCELLED, Job, Result


class Book:
    """At most `queue_limit` jobs of one kind wait."""

    def __init__(self, queue_limit: int) -> None:
        self._queue_limit = queue_limit
        self._jobs: dict[str, Job] = {}
        self._queues: dict[str, deque[str]] = {}
        # Kind -> the id of the one that runs.
        self._running: dict[str, str] = {}

    def is_full(self, kind: str) -> bool:
        """Where none of the kind runs, its next one need not wait."""
        waiting = len(self._queues.get(kind, ()))
        return waiting >= self._queue_limit + (kind not in self._running)

    def add(self, job: Job) -> None:
        self._jobs[job.id] = job
        self._queues.setdefault(job.kind, deque()).append(job.id)

    def begin(self, kind: str, now: int) -> Job | None:
        """The kind's next job, which runs from now on; None while one runs or none waits."""
        queue = self._queues.get(kind)
        if not queue or kind in self._running:
            return None
        name = queue.popleft()
        self._running[kind] = name
        self._jobs[name] = self._jobs[name].started(now)
        return self._jobs[name]

    def get(self, name: str) -> Job | None:
        """A job that has not ended."""
        return self._jobs.get(name)

    def advance(self, name: str, progress: float | None, message: str | None) -> Job | None:
        job = self._jobs.get(name)
        if job is None or job.status != "running":
            return None
        self._jobs[name] = job.at(progress, message)
        return self._jobs[name]

    def drop(self, name: str, now: int, error: str = CANCELLED) -> Job:
        """A queued job is cancelled; it never ran."""
        job = self._jobs[name].cancelled(now, error)
        self._queues[job.kind].remove(name)
        del self._jobs[name]
        return job

    def done(self, name: str, now: int, result: Result) -> Job:
        return self._ended(self._jobs[name].done(now, result))

    def failed(self, name: str, now: int, error: str, summary: dict[str, Any] | None = None) -> Job:
        return self._ended(self._jobs[name].failed(now, error, summary))

    def cancelled(self, name: str, now: int, error: str) -> Job:
        """A running job has ended because somebody wanted it to."""
        return self._ended(self._jobs[name].cancelled(now, error))

    def _ended(self, job: Job) -> Job:
        del self._running[job.kind], self._jobs[job.id]
        return job

    def queued(self) -> tuple[Job, ...]:
        return tuple(self._jobs[name] for queue in self._queues.values() for name in queue)

    def counts(self) -> dict[str, tuple[int, int]]:
        """For each kind with jobs: how many wait and how many run."""
        kinds = {job.kind for job in self._jobs.values()}
        return {
            kind: (len(self._queues.get(kind, ())), int(kind in self._running))
            for kind in sorted(kinds)
        }

    def __repr__(self) -> str:
        return f"<Book {len(self._running)} running of {len(self._jobs)}>"
