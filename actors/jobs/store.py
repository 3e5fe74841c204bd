"""The rows of jobs in SQLite, and their folders. Synchronous and used by one thread."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs
import msgspec

from headrace.actors.database import MEMORY, Database, Schema, change
from headrace.actors.jobs.files import SCHEMA as FILES
from headrace.actors.jobs.files import Files
from headrace.actors.jobs.job import Event, Job, end_event, start_event
from headrace.actors.jobs.place import JobFolders, Spot

DATABASE = "jobs.sqlite3"
# Jobs that have ended are forgotten, the oldest first, and their folders with them.
MOST_KEPT = 1000

SCHEMA = Schema(
    version=2,
    text=f"""
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    ended INTEGER NOT NULL,
    row BLOB NOT NULL,
    config BLOB NOT NULL
);
CREATE INDEX jobs_by_kind ON jobs (kind, number);
{FILES}
""",
)
# What a job is to do may be long, and is written once.
COLUMNS = "id, kind, status, ended, row, config"


class JobStore:
    """`folder` holds the database and all that belongs to jobs; None: in memory, and a temporary
    folder, both made when there is something to keep. Jobs that another server left are zombies
    from now on.

    Raises `StoreInUse`, and `OSError` where the folder cannot be made.
    """

    def __init__(
        self,
        folder: Path | None,
        now: int,
        *,
        most_kept: int = MOST_KEPT,
        files_bytes: int = 0,
    ) -> None:
        self.folders = JobFolders(folder)
        self.zombies = 0
        self._most_kept = most_kept
        self._files_bytes = files_bytes
        self._store = Database(MEMORY if folder is None else str(folder / DATABASE), SCHEMA)
        if folder is not None:
            self._bury(now)
            self.files.sweep()
            self.folders.sweep(name for (name,) in self._database.execute("SELECT id FROM jobs"))

    @property
    def _database(self) -> sqlite3.Connection:
        return self._store.connection

    @cached_property
    def files(self) -> Files:
        return Files(self._database, self.folders, self._files_bytes)

    def add(self, job: Job) -> None:
        """A new job. Raises `sqlite3.Error`, as all that change something."""
        with change(self._database):
            self._database.execute(
                f"INSERT INTO jobs ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
                (*_columns(job), msgspec.json.encode(job.config)),
            )
            forgotten = self._over_the_bound()
            self._database.executemany("DELETE FROM jobs WHERE id = ?", forgotten)
        for (name,) in forgotten:
            self.folders.remove(name)

    def put(self, job: Job) -> None:
        """The new state of a job that is there; what it is to do stays."""
        with change(self._database):
            self._database.execute(
                "UPDATE jobs SET kind = ?2, status = ?3, ended = ?4, row = ?5 WHERE id = ?1",
                _columns(job),
            )

    def start(self, job: Job) -> Path:
        """The job runs from now on, in this folder. Raises `OSError` too."""
        folder = self.folders.make(job.id)
        self.put(job)
        self.folders.append(job.id, start_event(job.started_at or 0))
        return folder

    def end(self, job: Job) -> None:
        """The row counts; an end that its log has no room for is told from the row."""
        self.folders.tidy(job.id)
        self.put(job)
        with suppress(OSError):
            self.folders.append(job.id, end_event(job), last=True)

    def note(self, job: Job | None, name: str, event: Event) -> None:
        """An event of a job that runs, and perhaps how far it is. Raises `OSError` too."""
        self.folders.append(name, event)
        if job is not None:
            self.put(job)

    def get(self, name: str) -> Job | None:
        found = self._database.execute(
            "SELECT row, config FROM jobs WHERE id = ?", (name,)
        ).fetchone()
        return None if found is None else _job(*found)

    def newest(self, limit: int, kind: str | None = None, before: str | None = None) -> list[Job]:
        """The newest first; of one kind, and only those older than `before`, where these are
        given."""
        rows = self._database.execute(
            "SELECT row, config FROM jobs WHERE (?1 IS NULL OR kind = ?1)"
            " AND (?2 IS NULL OR number < (SELECT number FROM jobs WHERE id = ?2))"
            " ORDER BY number DESC LIMIT ?3",
            (kind, before, limit),
        )
        return [_job(*columns) for columns in rows]

    def read(self, name: str, spot: Spot) -> tuple[list[bytes], Spot]:
        return self.folders.read(name, spot)

    def close(self) -> None:
        self._store.close()
        self.folders.close()

    def _bury(self, now: int) -> None:
        left = self._database.execute("SELECT row, config FROM jobs WHERE NOT ended").fetchall()
        for columns in left:
            job = _job(*columns).left_behind(now)
            self.folders.tidy(job.id)
            self.put(job)
        self.zombies = len(left)

    def _over_the_bound(self) -> list[tuple[Any, ...]]:
        return self._database.execute(
            "SELECT id FROM jobs WHERE ended ORDER BY number DESC LIMIT -1 OFFSET ?",
            (self._most_kept,),
        ).fetchall()


def _columns(job: Job) -> tuple[Any, ...]:
    row = msgspec.json.encode(attrs.evolve(job, config={}))
    return job.id, job.kind, job.status, job.ended, row


def _job(row: bytes, config: bytes) -> Job:
    job = msgspec.json.decode(row, type=Job)
    return attrs.evolve(job, config=msgspec.json.decode(config))
