"""SQLite files that one process uses at a time: opened whole, changed whole, begun anew if broken.

Synchronous and used by one thread at a time; which one is for the owner to say.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import attrs

MEMORY = ":memory:"


@attrs.frozen
class Schema:
    """The statements that make an empty database of this version, which is 1 or more."""

    version: int
    text: str


class StoreInUse(Exception):
    """Another process has the file open."""


@contextmanager
def change(database: sqlite3.Connection) -> Iterator[None]:
    """One transaction; it is written as a whole or not at all."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        _roll_back(database)
        raise
    try:
        database.execute("COMMIT")
    except BaseException:
        # A full disk fails here, and leaves the transaction open.
        _roll_back(database)
        raise


def _roll_back(database: sqlite3.Connection) -> None:
    # SQLite itself ends a transaction after some errors.
    if database.in_transaction:
        database.execute("ROLLBACK")


class Database:
    """One that is opened when it is first used, for what is kept in memory and often never needed.

    After `close` every use is a `sqlite3.ProgrammingError`, as that of a closed connection is.
    """

    def __init__(self, path: str, schema: Schema) -> None:
        self._path = path
        self._schema = schema
        self._closed = False

    @cached_property
    def connection(self) -> sqlite3.Connection:
        """Raises as `open_database`."""
        if self._closed:
            raise sqlite3.ProgrammingError("the database was closed")
        return open_database(self._path, self._schema)

    @property
    def opened(self) -> bool:
        return "connection" in vars(self)

    def close(self) -> None:
        self._closed = True
        if self.opened:
            self.connection.close()


def open_database(path: str, schema: Schema) -> sqlite3.Connection:
    """Raises `StoreInUse`, and `OSError` where the file cannot be made.

    A file of another version, or one that is no database, is begun anew: what is kept in such
    files can be lost, and a server that does not start is worse.
    """
    if path == MEMORY:
        return _prepared(path, schema)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    try:
        database = _prepared(path, schema)
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise StoreInUse(path) from None
        raise
    except sqlite3.DatabaseError:
        for leftover in (path, f"{path}-wal", f"{path}-shm"):
            Path(leftover).unlink(missing_ok=True)
        database = _prepared(path, schema)
    Path(path).chmod(0o600)
    return database


def _prepared(path: str, schema: Schema) -> sqlite3.Connection:
    """A connection to a database of this version, that nobody else can use."""
    database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA auto_vacuum = FULL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version != schema.version:
            _empty(database)
            database.executescript(f"{schema.text} PRAGMA user_version = {schema.version};")
        database.execute("PRAGMA foreign_keys = ON")
        # The lock is taken with the first change.
        database.execute("BEGIN IMMEDIATE")
        database.execute("COMMIT")
    except BaseException:
        database.close()
        raise
    return database


def _empty(database: sqlite3.Connection) -> None:
    tables = database.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    for (name,) in tables:
        database.execute(f'DROP TABLE "{name}"')
