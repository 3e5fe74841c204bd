"""Stored responses in SQLite: a bounded table that forgets by age, and by use where room is short.

Synchronous and used by one thread. `now` is Unix seconds and always comes from outside. What is
stored means nothing here; it is compressed, as conversations repeat themselves.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import attrs

# Only a finished response can be gone on with; an interrupted one was running when the server
# that ran it ended.
State: TypeAlias = Literal["running", "finished", "failed", "cancelled", "interrupted"]

MEMORY = ":memory:"
# What a row takes beside its contents, roughly.
ROW_BYTES = 256
VERSION = 1

SCHEMA = """
CREATE TABLE responses (
    id TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    expires REAL NOT NULL,
    used INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    body BLOB NOT NULL,
    input BLOB NOT NULL,
    conversation BLOB NOT NULL,
    frames BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX by_use ON responses (state = 'running', used);
CREATE INDEX by_expiry ON responses (expires);
CREATE TABLE items (
    id TEXT NOT NULL,
    response TEXT NOT NULL REFERENCES responses (id) ON DELETE CASCADE,
    PRIMARY KEY (id, response)
) WITHOUT ROWID;
CREATE INDEX by_response ON items (response);
"""


@attrs.frozen
class StoredResponse:
    """`body` is the response, `input` its own items, `conversation` all items with its output.

    `frames` are the events of its stream where they can be asked for again. All are bytes that
    only their writer can read. `items` are the ids under which single items can be found.
    """

    id: str
    state: State
    body: bytes
    input: bytes = b""
    conversation: bytes = b""
    frames: bytes = b""
    items: tuple[str, ...] = ()


@attrs.frozen
class Usage:
    entries: int
    bytes: int


class StoreInUse(Exception):
    """Another process has the file open."""


class ResponseStore:
    """Raises `StoreInUse`; a file that is no store of this version is begun anew."""

    def __init__(self, path: str, *, most_bytes: int, ttl_seconds: float) -> None:
        self._most_bytes = most_bytes
        self._ttl_seconds = ttl_seconds
        self._database = _opened(path)
        with self._change():
            self._database.execute(
                "UPDATE responses SET state = 'interrupted' WHERE state = 'running'"
            )

    def put(self, stored: StoredResponse, now: float) -> bool:
        """Store or replace. False where it is larger than all that may be kept."""
        blobs = [
            zlib.compress(data, 1)
            for data in (stored.body, stored.input, stored.conversation, stored.frames)
        ]
        size = sum(map(len, blobs)) + ROW_BYTES + sum(map(len, stored.items))
        with self._change():
            self._database.execute("DELETE FROM responses WHERE id = ?", (stored.id,))
            self._forget_expired(now)
            if size > self._most_bytes:
                return False
            self._make_room(size)
            row = (stored.id, stored.state, now + self._ttl_seconds, self._next_use(), size)
            self._database.execute(
                "INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, *blobs)
            )
            self._database.executemany(
                "INSERT OR IGNORE INTO items VALUES (?, ?)",
                [(item, stored.id) for item in stored.items],
            )
        return True

    def get(self, name: str, now: float) -> StoredResponse | None:
        """A response by its id; it counts as used."""
        with self._change():
            self._forget_expired(now)
            self._database.execute(
                "UPDATE responses SET used = ? WHERE id = ?", (self._next_use(), name)
            )
        row = self._database.execute(
            "SELECT id, state, body, input, conversation, frames FROM responses WHERE id = ?",
            (name,),
        ).fetchone()
        return None if row is None else StoredResponse(*row[:2], *map(zlib.decompress, row[2:]))

    def holder(self, item: str, now: float) -> StoredResponse | None:
        """The latest response in whose conversation an item stands."""
        row = self._database.execute(
            "SELECT response FROM items JOIN responses ON responses.id = items.response"
            " WHERE items.id = ? ORDER BY used DESC LIMIT 1",
            (item,),
        ).fetchone()
        return None if row is None else self.get(row[0], now)

    def delete(self, name: str) -> bool:
        with self._change():
            deleted = self._database.execute("DELETE FROM responses WHERE id = ?", (name,))
        return deleted.rowcount > 0

    def usage(self) -> Usage:
        row = self._database.execute("SELECT COUNT(*), TOTAL(bytes) FROM responses").fetchone()
        return Usage(int(row[0]), int(row[1]))

    def close(self) -> None:
        self._database.close()

    # ---- inside ----------------------------------------------------------------------------

    @contextmanager
    def _change(self) -> Iterator[None]:
        """One transaction; it is written as a whole or not at all."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def _forget_expired(self, now: float) -> None:
        self._database.execute("DELETE FROM responses WHERE expires <= ?", (now,))

    def _make_room(self, size: int) -> None:
        """Forget the least recently used until there is room; those that run go last."""
        while self.usage().bytes + size > self._most_bytes:
            self._database.execute(
                "DELETE FROM responses WHERE id ="
                " (SELECT id FROM responses ORDER BY state = 'running', used LIMIT 1)"
            )

    def _next_use(self) -> int:
        """Uses are numbered: clocks stand still, and step back."""
        row = self._database.execute("SELECT MAX(used) FROM responses").fetchone()
        return int(row[0] or 0) + 1


def _opened(path: str) -> sqlite3.Connection:
    if path == MEMORY:
        return _prepared(path)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    try:
        database = _prepared(path)
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise StoreInUse(path) from None
        raise
    except sqlite3.DatabaseError:
        # What is kept here can be lost; a server that does not start is worse.
        for leftover in (path, f"{path}-wal", f"{path}-shm"):
            Path(leftover).unlink(missing_ok=True)
        database = _prepared(path)
    Path(path).chmod(0o600)
    return database


def _prepared(path: str) -> sqlite3.Connection:
    """A connection to a store of this version, that nobody else can use."""
    # Used by one thread at a time; which one is for its owner to say.
    database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA foreign_keys = ON")
        database.execute("PRAGMA auto_vacuum = FULL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            database.executescript("DROP TABLE IF EXISTS items; DROP TABLE IF EXISTS responses;")
            database.executescript(f"{SCHEMA} PRAGMA user_version = {VERSION};")
        # The lock is taken with the first change.
        database.execute("BEGIN IMMEDIATE")
        database.execute("COMMIT")
    except BaseException:
        database.close()
        raise
    return database
