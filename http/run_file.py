"""How commands find a running server: a file in its home, locked for as long as it lives.

    home/run/<pid>-<port>.json

A file that appears is whole and locked already, and the lock goes with the process, however that
ends. So a file that can be locked is a stale one, and the process that a locked one names is its
server: a number that some other program has by now is never taken for it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import attrs
import msgspec

logger = logging.getLogger(__name__)

FOLDER = "run"
LOOK_SECONDS = 0.05


@attrs.frozen
class Running:
    """A server that runs on this machine. `addresses` are URLs."""

    pid: int
    addresses: tuple[str, ...]
    # In Unix seconds.
    started_at: float
    # Where the number of the process means something: a host, or a container on it.
    machine: str

    @property
    def url(self) -> str:
        """An address that a client of this machine reaches."""
        address = self.addresses[0]
        return address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")

    def listens_at(self, url: str) -> bool:
        return url in {self.url, *self.addresses}


@contextmanager
def announced(home: Path, addresses: tuple[str, ...]) -> Iterator[None]:
    """Let commands find this process, which serves at `addresses`.

    The file goes with the `with` block, the lock with the process: whoever waits for the lock has
    waited for the whole end.
    """
    file = home / FOLDER / f"{os.getpid()}-{addresses[0].rpartition(':')[2]}.json"
    try:
        _write(file, Running(os.getpid(), addresses, time.time(), this_machine()))
    except OSError as error:
        logger.warning("commands will not find this server: %s: %s", file, error.strerror)
    try:
        yield
    finally:
        with suppress(OSError):
            file.unlink(missing_ok=True)


def running(home: Path) -> tuple[Running, ...]:
    """The servers of this home that run on this machine. Files that were left are removed."""
    servers = (server for file in _files(home) if (server := _read(file)) is not None)
    return tuple(server for server in servers if server.machine == this_machine())


@contextmanager
def watched(home: Path, server: Running) -> Iterator[BinaryIO | None]:
    """Hold on to a server's file, so that its end is seen; None where it has ended already."""
    for file in _files(home):
        with suppress(FileNotFoundError), closing(file.open("rb")) as opened:
            if not _is_free(opened) and _decoded(opened) == server:
                yield opened
                return
    yield None


def wait_end(opened: BinaryIO, seconds: float) -> bool:
    """Whether the process has ended within so many seconds. Blocks."""
    deadline = time.monotonic() + seconds
    while not (free := _is_free(opened)) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return free


def this_machine() -> str:
    """Containers may share a home, and each counts processes anew."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return f"{socket.gethostname()} {namespace}".strip()


def _write(file: Path, server: Running) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    # Never closed: the lock is to last as long as the process.
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(descriptor, msgspec.json.encode(server))
    part.rename(file)


def _files(home: Path) -> list[Path]:
    return sorted((home / FOLDER).glob("[!.]*.json"))


def _read(file: Path) -> Running | None:
    with suppress(FileNotFoundError), closing(file.open("rb")) as opened:
        if _is_free(opened):
            file.unlink(missing_ok=True)
        else:
            return _decoded(opened)
    return None


def _is_free(opened: BinaryIO) -> bool:
    """Shared, so that two who look at a time do not take each other for the server."""
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(opened, fcntl.LOCK_UN)
    return True


def _decoded(opened: BinaryIO) -> Running | None:
    opened.seek(0)
    try:
        return msgspec.json.decode(opened.read(), type=Running)
    except msgspec.DecodeError:
        return None
