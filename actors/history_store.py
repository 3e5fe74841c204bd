"""Stored responses in SQLite: a bounded table that forgets by age, and by use where room is short.

Synchronous and used by one thread. `now` is Unix seconds and always comes from outside. What is
stored means nothing here; it is compressed, as conversations repeat themselves.
"""

from __future__ import annotations

import sqlite3
import zlib
from typing import Literal, TypeAlias

import attrs

from headrace.actors.database import MEMORY, Database, Schema, change

# Only a finished response can be gone on with; an interrupted one was running when the server
# that ran it ended.
State: TypeAlias = Literal["running", "finished", "failed", "cancelled", "interrupted"]

# What a row takes beside its contents, roughly.
ROW_BYTES = 256

SCHEMA = Schema(
    version=1,
    text="""
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
""",
)


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


class ResponseStore:
    """Raises `StoreInUse`; a file that is no store of this version is begun anew. One in memory is
    made when something is to be kept or looked for."""

    def __init__(self, path: str, *, most_bytes: int, ttl_seconds: float) -> None:
        self._store = Database(path, SCHEMA)
        self._most_bytes = most_bytes
        self._ttl_seconds = ttl_seconds
        if path != MEMORY:
            with change(self._database):
                self._database.execute(
                    "UPDATE responses SET state = 'interrupted' WHERE state = 'running'"
                )

    @property
    def _database(self) -> sqlite3.Connection:
        return self._store.connection

    def put(self, stored: StoredResponse, now: float) -> bool:
        """Store or replace. False where it is larger than all that may be kept."""
        blobs = [
            zlib.compress(data, 1)
            for data in (stored.body, stored.input, stored.conversation, stored.frames)
        ]
        size = sum(map(len, blobs)) + ROW_BYTES + sum(map(len, stored.items))
        with change(self._database):
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
        with change(self._database):
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
        with change(self._database):
            deleted = self._database.execute("DELETE FROM responses WHERE id = ?", (name,))
        return deleted.rowcount > 0

    def usage(self) -> Usage:
        if not self._store.opened:
            return Usage(0, 0)
        row = self._database.execute("SELECT COUNT(*), TOTAL(bytes) FROM responses").fetchone()
        return Usage(int(row[0]), int(row[1]))

    def close(self) -> None:
        self._store.close()

    # ---- inside ----------------------------------------------------------------------------

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
