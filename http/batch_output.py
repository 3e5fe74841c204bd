"""The two files of answers that a batch makes. Synchronous, for the thread of the jobs' store."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import attrs

from headrace.actors.jobs.files import StoredFile
from headrace.http.batch_row import Answer
from headrace.runtime.whole_file import UNFINISHED

# What answers are, and what those are that failed.
OUTPUT, ERROR = "output", "error"
PURPOSE = "batch_output"


@attrs.define
class Growing:
    """A file that nobody may read yet."""

    path: Path
    size_bytes: int = 0

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)
        self.size_bytes += len(data)

    def complete(self) -> None:
        with self.path.open("rb") as file:
            os.fsync(file.fileno())


class Outputs:
    """They become files of their own when they are whole; before, they end in `UNFINISHED`, and
    go when the job ends otherwise."""

    def __init__(self, folder: Path, job: str) -> None:
        self._job = job
        self._files = {
            which: Growing(folder / f"{which}.jsonl{UNFINISHED}") for which in (OUTPUT, ERROR)
        }

    def append(self, answers: list[Answer]) -> None:
        """Raises `OSError`."""
        for which, file in self._files.items():
            data = b"".join(a.data for a in answers if a.failed == (which == ERROR))
            if data:
                file.append(data)

    def complete(self, now: int) -> dict[str, tuple[StoredFile, Path]]:
        """Those that have anything in them. Raises `OSError`."""
        found = {which: file for which, file in self._files.items() if file.size_bytes}
        for file in found.values():
            file.complete()
        return {which: (self._stored(which, file, now), file.path) for which, file in found.items()}

    def _stored(self, which: str, file: Growing, now: int) -> StoredFile:
        digest = hashlib.sha256(f"{self._job} {which}".encode()).hexdigest()
        return StoredFile(
            id=f"file-{digest[:24]}",
            filename=f"batch_{self._job.removeprefix('job_')}_{which}.jsonl",
            purpose=PURPOSE,
            bytes=file.size_bytes,
            created_at=now,
            job=self._job,
        )
