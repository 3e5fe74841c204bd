"""The folder of jobs: one folder for each, with its log and its files.

    jobs.sqlite3          what is known of all of them
    job_…/log.ndjson      the events of one, a line each
    job_…/…               what it made
    files/file-…          what clients bring and take (`files`)

Synchronous, for one thread.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import attrs
import msgspec

from headrace.actors.jobs.job import Event
from headrace.runtime.whole_file import UNFINISHED

LOG = "log.ndjson"
# Beyond this a log takes no more lines but the last one.
MOST_LOG_BYTES = 8 << 20
MOST_READ_BYTES = 256 << 10


@attrs.frozen
class Spot:
    """A place between two lines of a log: how many come before, and how many bytes."""

    lines: int = 0
    bytes: int = 0


class JobFolders:
    """Without a folder of its own a temporary one is made when it is needed, and goes with it."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._temporary: Path | None = None

    @property
    def root(self) -> Path:
        if self._folder is not None:
            return self._folder
        if self._temporary is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="headrace-jobs-"))
        return self._temporary

    def of(self, name: str) -> Path:
        return self.root / name

    def make(self, name: str) -> Path:
        folder = self.of(name)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def append(self, name: str, event: Event, *, last: bool = False) -> None:
        """Raises `OSError`. What is over the bound of a log is left out."""
        log = self.make(name) / LOG
        descriptor = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size > MOST_LOG_BYTES and not last:
                return
            _write(descriptor, size, msgspec.json.encode(event) + b"\n")
        finally:
            os.close(descriptor)

    def read(self, name: str, spot: Spot) -> tuple[list[bytes], Spot]:
        """The lines from there on, about so many that fit into `MOST_READ_BYTES`."""
        try:
            with (self.of(name) / LOG).open("rb") as log:
                log.seek(spot.bytes)
                data = log.read(MOST_READ_BYTES)
                if b"\n" not in data:
                    data += log.readline()
        except FileNotFoundError:
            return [], spot
        whole = data[: data.rfind(b"\n") + 1]
        lines = whole.split(b"\n")[:-1]
        return lines, Spot(spot.lines + len(lines), spot.bytes + len(whole))

    def tidy(self, name: str) -> None:
        """Remove what was begun in a job's folder and is not whole."""
        if self._folder is not None or self._temporary is not None:
            for file in self.of(name).glob(f"*{UNFINISHED}"):
                file.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        if self._folder is not None or self._temporary is not None:
            shutil.rmtree(self.of(name), ignore_errors=True)

    def sweep(self, known: Iterable[str]) -> None:
        """Remove the folders of jobs of which nothing is known any more."""
        kept = set(known)
        if self._folder is None or not self._folder.is_dir():
            return
        for folder in self._folder.glob("job_*"):
            if folder.name not in kept:
                self.remove(folder.name)

    def sweep_files(self, folder: str, known: Iterable[str]) -> None:
        """Remove the files of a folder of which nothing is known."""
        kept = set(known)
        if self._folder is None or not (self._folder / folder).is_dir():
            return
        for file in (self._folder / folder).iterdir():
            if file.name not in kept:
                file.unlink()

    def close(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None


def _write(descriptor: int, size: int, line: bytes) -> None:
    """Append a line as a whole: half of one would run into the next."""
    try:
        if os.write(descriptor, line) == len(line):
            return
        error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as failed:
        error = failed
    os.ftruncate(descriptor, size)
    raise error
