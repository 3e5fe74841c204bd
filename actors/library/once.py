"""Folders that are made once, whole or not at all, by however many processes ask at a time."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path


def make_once(
    target: Path,
    is_done: Callable[[], bool],
    build: Callable[[Path], None],
    wait_begins: Callable[[], None],
) -> None:
    """Have `build` fill a folder that then becomes `target`.

    Under a lock file beside the target: a second caller waits (told by `wait_begins`) and finds
    it done. An interrupted build leaves a folder that the next one removes first. A target that
    is there but not done is replaced.
    """
    if is_done():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_name(f".{target.name}.lock"), wait_begins):
        if is_done():
            return
        for left in target.parent.glob(f".{target.name}.part-*"):
            shutil.rmtree(left, ignore_errors=True)
        # Our own number in the name: a child of a killed process may still write to the old one.
        part = target.with_name(f".{target.name}.part-{os.getpid()}")
        part.mkdir()
        try:
            build(part)
            _write_through(part)
            if target.exists():
                shutil.rmtree(target)
            part.rename(target)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise


def remove_whole(target: Path) -> None:
    """Remove a folder under the same lock. It is gone from its name at once; what is left of an
    interrupted removal is removed by the next build of that name."""
    with _locked(target.with_name(f".{target.name}.lock"), lambda: None):
        gone = target.with_name(f".{target.name}.part-{os.getpid()}")
        target.rename(gone)
        shutil.rmtree(gone)


@contextlib.contextmanager
def _locked(file: Path, wait_begins: Callable[[], None]) -> Iterator[None]:
    # Here, since a model that is there needs no lock, and a server is to listen soon.
    import filelock

    lock = filelock.FileLock(file)
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        wait_begins()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _write_through(folder: Path) -> None:
    """A rename may reach the disk before the content does; after a power cut the folder would
    look whole."""
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
