"""Files that clients have brought for jobs, and those that jobs have made for clients.

    files/file-…          one file, whole

Their rows stand in the jobs' database. Synchronous and used by one thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import attrs
import msgspec

from headrace.actors.database import change
from headrace.actors.jobs.place import JobFolders
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.whole_file import write_whole

FOLDER = "files"
SCHEMA = """
CREATE TABLE files (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    purpose TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    job TEXT,
    row BLOB NOT NULL
);
"""


@attrs.frozen(kw_only=True)
class StoredFile:
    """`created_at` is in seconds since the epoch. `job` is the one that made it."""

    id: str
    filename: str
    purpose: str
    bytes: int
    created_at: int
    job: str | None = None


class Files:
    """At most `most_bytes` in all. What a job has made that is not done is removed at the start,
    and so is what nobody knows of."""

    def __init__(self, database: sqlite3.Connection, folders: JobFolders, most_bytes: int) -> None:
        self._database = database
        self._folders = folders
        self._most_bytes = most_bytes

    def sweep(self) -> None:
        """At the start, when no job runs."""
        with change(self._database):
            self._database.execute(
                "DELETE FROM files WHERE job IN (SELECT id FROM jobs WHERE status != 'done')"
            )
        known = {name for (name,) in self._database.execute("SELECT id FROM files")}
        self._folders.sweep_files(FOLDER, known)

    def add(self, file: StoredFile, data: bytes) -> None:
        """Raises `RequestError` where there is no room, `OSError` and `sqlite3.Error`."""
        used = self._database.execute("SELECT TOTAL(bytes) FROM files").fetchone()[0]
        if used + len(data) > self._most_bytes:
            text = f"Files may take {self._most_bytes} bytes together; delete some first."
            raise RequestError(Code.BODY_TOO_LARGE, text, param="file")
        path = self.path(file.id)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
        try:
            self._record([file])
        except BaseException:
            path.unlink()
            raise

    def adopt(self, made: Iterable[tuple[StoredFile, Path]]) -> None:
        """Take over what a job has made, all of it or nothing."""
        made = list(made)
        self._folders.make(FOLDER)
        for file, path in made:
            path.rename(self.path(file.id))
        self._record([file for file, _ in made])

    def _record(self, files: list[StoredFile]) -> None:
        with change(self._database):
            self._database.executemany(
                "INSERT INTO files (id, purpose, bytes, job, row) VALUES (?, ?, ?, ?, ?)",
                [(f.id, f.purpose, f.bytes, f.job, msgspec.json.encode(f)) for f in files],
            )

    def get(self, name: str) -> StoredFile | None:
        found = self._database.execute("SELECT row FROM files WHERE id = ?", (name,)).fetchone()
        return None if found is None else msgspec.json.decode(found[0], type=StoredFile)

    def newest(
        self, limit: int, purpose: str | None = None, before: str | None = None, *, oldest: bool
    ) -> list[StoredFile]:
        """In the order of their coming, the newest first or the `oldest`; only those behind
        `before` in that order, where it is given."""
        sign, order = (">", "ASC") if oldest else ("<", "DESC")
        rows = self._database.execute(
            "SELECT row FROM files WHERE (?1 IS NULL OR purpose = ?1)"
            f" AND (?2 IS NULL OR number {sign} (SELECT number FROM files WHERE id = ?2))"
            f" ORDER BY number {order} LIMIT ?3",
            (purpose, before, limit),
        )
        return [msgspec.json.decode(row, type=StoredFile) for (row,) in rows]

    def read(self, name: str) -> bytes | None:
        return self.path(name).read_bytes() if self.get(name) is not None else None

    def delete(self, name: str) -> bool:
        with change(self._database):
            deleted = self._database.execute("DELETE FROM files WHERE id = ?", (name,))
        if deleted.rowcount:
            self.path(name).unlink(missing_ok=True)
        return deleted.rowcount > 0

    def path(self, name: str) -> Path:
        return self._folders.root / FOLDER / name
