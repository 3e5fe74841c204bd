"""What a worker process does first: take up its link, and make sure that it outlives nobody.

See `runtime.process` for the parent's side.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import threading
from types import FrameType

STANDARD_INPUT = 0
# The exit code of a worker whose parent has gone; nobody is left to read it but a log.
ORPHANED = 70


def inherited_socket(number: str) -> socket.socket:
    """The worker's end of its link, by the number that its parent gave it.

    Programs that the worker starts do not get it: they would keep the link open after its death.
    """
    end = socket.socket(fileno=int(number))
    end.set_inheritable(False)
    return end


def leave_with_parent() -> None:
    """From now on this process ends within a moment of its parent's end, whatever it is doing.

    Standard input is the lifeline: its end-of-file means that the parent is gone, also when that
    was before this call. A thread waits for it, so that a loop that is stuck does not matter.
    Where the system can, it also kills this process by itself, for the case that the
    interpreter's lock is held in a long call or that the process is stopped.
    """
    lifeline = os.dup(STANDARD_INPUT)
    _replace_standard_input()
    _kill_at_end_of(lifeline)

    def watch() -> None:
        os.read(lifeline, 1)
        os._exit(ORPHANED)

    threading.Thread(target=watch, name="parent watch", daemon=True).start()


def end_when_told() -> None:
    """From now on SIGTERM ends this process as a return would: what it holds is given back."""

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)


def _replace_standard_input() -> None:
    """Nothing that reads from standard input, here or in a child, may touch the lifeline."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STANDARD_INPUT)
    os.close(nothing)


def _kill_at_end_of(lifeline: int) -> None:
    """Have the kernel send SIGKILL when the pipe's other end closes (Linux: fcntl(2), F_SETSIG)."""
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
