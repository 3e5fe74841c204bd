"""A folder of notes on the disk: read whole, written file by file, and never left by a link.

Synchronous, for one thread. The folder is held open, and all that happens inside goes by way of
that: whatever somebody does to its path meanwhile, nothing is written anywhere else.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import suppress

from headrace.actors.notes.note import SUFFIX
from headrace.actors.notes.planning import Shelf
from headrace.actors.notes.roots import Spot
from headrace.runtime.errors import Code, RequestError

MOST_NOTE_BYTES = 16 << 20
MOST_FOLDER_BYTES = 256 << 20
MOST_FILES = 20_000
# An unfinished file; the next writer of the folder removes it.
UNFINISHED_PREFIX, UNFINISHED_SUFFIX = ".headrace-", ".part"

_INSIDE = os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class NoteFolder:
    """`sync` is told a file that is to reach the disk. All raise `OSError`, and `RequestError` for
    what its owner can mend."""

    def __init__(self, spot: Spot, sync: Callable[[int], None] = os.fsync) -> None:
        self._spot = spot
        self._sync = sync
        self._folder: int | None = None

    def open(self, *, writes: bool) -> None:
        """To be closed even if this fails. For reading alone, a folder that is not there is empty.

        One writer at a time, in whatever process: another gets `in-use`.
        """
        try:
            self._descend(make=writes)
        except FileNotFoundError:
            self.close()
            if writes:
                raise
        if writes and self._folder is not None:
            self._lock(self._folder)
            self._clear(self._folder)

    def _descend(self, *, make: bool) -> None:
        if make:
            self._spot.root.mkdir(parents=True, exist_ok=True)
        self._folder = os.open(self._spot.root, _FOLDER)
        for part in self._spot.parts:
            above = self._folder
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=above)
                    self._sync(above)
            self._folder = _enter(part, above)
            os.close(above)

    def _lock(self, folder: int) -> None:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = "Another job or server is writing to this folder."
            raise RequestError(Code.IN_USE, text, param="folder") from None

    def _clear(self, folder: int) -> None:
        for name in os.listdir(folder):
            if name.startswith(UNFINISHED_PREFIX) and name.endswith(UNFINISHED_SUFFIX):
                os.unlink(name, dir_fd=folder)

    def read(self) -> Shelf:
        """All of its Markdown, and what else is there."""
        if self._folder is None:
            return Shelf({})
        texts: dict[str, str] = {}
        others: set[str] = set()
        left = MOST_FOLDER_BYTES
        for name in sorted(os.listdir(self._folder)):
            text = _text(self._folder, name) if name.endswith(SUFFIX) else None
            if text is None:
                others.add(name)
            else:
                texts[name] = text
                left -= len(text)
            if left < 0 or len(texts) > MOST_FILES:
                rule = "The folder holds more files, or larger ones, than notes are made for."
                raise RequestError(Code.INVALID_VALUE, rule, param="folder")
        return Shelf(texts, frozenset(others))

    def write(self, name: str, text: str) -> None:
        """The file is there whole when this returns; where it fails, what was there stays."""
        folder = self._folder
        if folder is None:
            raise ValueError("the folder is not open")
        part = f"{UNFINISHED_PREFIX}{name}{UNFINISHED_SUFFIX}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _INSIDE
            file = os.open(part, flags, 0o666, dir_fd=folder)
            with os.fdopen(file, "wb") as stream:
                stream.write(text.encode())
                stream.flush()
                # A rename may reach the disk before the content does.
                self._sync(file)
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise
        self._sync(folder)

    def close(self) -> None:
        """Another may write to it then. More than once is the same as once."""
        folder, self._folder = self._folder, None
        if folder is not None:
            os.close(folder)


def _enter(part: str, above: int) -> int:
    """A folder inside another, if that is what it is."""
    try:
        return os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        text = "folder must not lead through links or files."
        raise RequestError(Code.INVALID_VALUE, text, param="folder") from None


def _text(folder: int, name: str) -> str | None:
    """What a file says; None for what is no text file of ours, such as a link or a pipe."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _INSIDE, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EACCES, errno.ENOENT):
            return None
        raise
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_NOTE_BYTES:
            return None
        with open(file, "rb", closefd=False) as stream, suppress(UnicodeDecodeError):
            return stream.read().decode()
        return None
    finally:
        os.close(file)
