"""Threads and processes that a test leaves behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Idle threads of trio's cache, and the one that tqdm keeps for its bars.
CACHED_THREADS = "Trio thread"
LIBRARY_THREADS = {"TMonitor"}
# For a thread that is on its way out.
END_SECONDS = 30.0


@contextmanager
def check_leftovers() -> Iterator[None]:
    """Raises `AssertionError` if there are more threads or children afterwards than before."""
    threads, children = set(threading.enumerate()), child_processes()
    yield
    started = [thread for thread in threading.enumerate() if thread not in threads]
    for thread in started:
        if not _may_stay(thread):
            thread.join(timeout=END_SECONDS)
    left = [thread.name for thread in started if thread.is_alive() and not _may_stay(thread)]
    assert not left, f"threads left behind: {left}"
    assert not child_processes() - children, "child processes left behind"


def _may_stay(thread: threading.Thread) -> bool:
    return thread.name.startswith(CACHED_THREADS) or type(thread).__name__ in LIBRARY_THREADS


def child_processes() -> set[int]:
    """Process ids of our children, ended ones that nobody has waited for included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()
    except AttributeError:  # not on this system
        return set()
    return {pid for pid, parent in _processes() if parent == os.getpid()}


def _processes() -> Iterator[tuple[int, int]]:
    """(process id, parent's id) of every process, where the system shows them as files."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = file.read_text()
        except OSError:  # it has just ended
            continue
        # The name stands in brackets and may hold anything; the parent is the second field after.
        yield int(file.parent.name), int(text.rpartition(")")[2].split()[1])
