"""Files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

# What an interrupted writer leaves behind ends so; nobody reads it, and the next one replaces it.
UNFINISHED = ".part"


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, which gets its name when it is complete and on the disk.

    Leaving by an error leaves nothing, and what was there before stays. One writer of a path at a
    time. Raises `OSError`.
    """
    part = path.with_name(path.name + UNFINISHED)
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            # A rename may reach the disk before the content does.
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_whole(path: Path, data: bytes) -> None:
    """Raises `OSError`."""
    with whole_file(path) as file:
        file.write(data)
