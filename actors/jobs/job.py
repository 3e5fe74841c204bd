"""What a job is: its row, the states it goes through, and the events of its log. Pure."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import attrs

Status: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled", "zombie"]

# From each state to those that may follow. A zombie was left by a server that ended without a
# word, so nobody knows how far it came.
NEXT: dict[Status, frozenset[Status]] = {
    "queued": frozenset({"running", "cancelled", "zombie"}),
    "running": frozenset({"done", "failed", "cancelled", "zombie"}),
    "done": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
    "zombie": frozenset(),
}
LEFT_BEHIND = "The server ended before the job did."
CANCELLED = "The job was cancelled."

# One line of a log, as it stands there: `type` and what belongs to it.
Event: TypeAlias = dict[str, Any]


@attrs.frozen
class Result:
    """How a job ended well: a file in its folder, where there is one, and what to tell."""

    output: str | None = None
    summary: dict[str, Any] | None = None


@attrs.frozen(kw_only=True)
class Job:
    """Times are in milliseconds since the epoch; `progress` is from 0 to 1.

    `output` is a name in the job's folder. `error` says in words why it did not end well.
    """

    id: str
    kind: str
    config: dict[str, Any]
    created_at: int
    status: Status = "queued"
    progress: float = 0.0
    message: str | None = None
    output: str | None = None
    summary: dict[str, Any] | None = None
    error: str | None = None
    started_at: int | None = None
    ended_at: int | None = None

    @property
    def ended(self) -> bool:
        return not NEXT[self.status]

    def started(self, now: int) -> Job:
        return attrs.evolve(self._moved("running"), started_at=now)

    def done(self, now: int, result: Result) -> Job:
        return attrs.evolve(
            self._moved("done"),
            ended_at=now,
            progress=1.0,
            output=result.output,
            summary=result.summary,
        )

    def failed(self, now: int, error: str, summary: dict[str, Any] | None = None) -> Job:
        return attrs.evolve(self._moved("failed"), ended_at=now, error=error, summary=summary)

    def cancelled(self, now: int, error: str = CANCELLED) -> Job:
        return attrs.evolve(self._moved("cancelled"), ended_at=now, error=error)

    def left_behind(self, now: int) -> Job:
        return attrs.evolve(self._moved("zombie"), ended_at=now, error=LEFT_BEHIND)

    def at(self, progress: float | None, message: str | None) -> Job:
        """How far it is; None leaves what is known."""
        return attrs.evolve(
            self,
            progress=self.progress if progress is None else min(max(progress, 0.0), 1.0),
            message=self.message if message is None else message,
        )

    def _moved(self, status: Status) -> Job:
        if status not in NEXT[self.status]:
            raise ValueError(f"a job that is {self.status} cannot become {status}")
        return attrs.evolve(self, status=status)


def start_event(now: int) -> Event:
    return {"type": "started", "ts": now}


def end_event(job: Job) -> Event:
    """The last event of a job that has ended, made from its row."""
    if job.status == "done":
        event: Event = {"type": "done", "ts": job.ended_at}
        if job.output is not None:
            event["output"] = job.output
        return event if job.summary is None else event | {"summary": job.summary}
    return {"type": "failed", "ts": job.ended_at, "error": job.error}
