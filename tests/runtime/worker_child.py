"""Small workers for `test_process`, run as `python worker_child.py KIND NUMBER`."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable

from headrace.runtime.frames import framed
from headrace.runtime.worker_side import inherited_socket, leave_with_parent


def echo(number: str) -> None:
    """Sends each frame back, and leaves with code 0 when the link closes."""
    import trio

    from headrace.runtime.link import Link, open_link

    async def serve() -> None:
        async with open_link(Link(inherited_socket(number))) as link:
            while (payload := await link.receive()) is not None:
                link.send(payload)

    trio.run(serve)


def flood(number: str) -> None:
    """Sends frames for ever."""
    end = inherited_socket(number)
    frame = framed(b"token" * 100)
    while True:
        end.sendall(frame)


def leave(number: str) -> None:
    """Says goodbye and leaves with a code of its own."""
    end = inherited_socket(number)
    end.sendall(framed(b"goodbye"))
    sys.exit(3)


def babble(number: str) -> None:
    """Writes what is no frame."""
    end = inherited_socket(number)
    end.sendall(b"Traceback (most recent call last)")
    end.recv(1)


def linger(number: str) -> None:
    """Sees the link close and stays; leaves at SIGTERM."""
    end = inherited_socket(number)
    end.sendall(framed(b"up"))
    time.sleep(60)


def stay(number: str) -> None:
    """Neither the link's end nor SIGTERM moves it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    linger(number)


def sleep(number: str) -> None:
    """Sits in a call that lets other threads run, on a system where only a thread can watch."""
    if hasattr(fcntl, "F_SETSIG"):
        del fcntl.F_SETSIG
    leave_with_parent()
    linger(number)


def hold(number: str) -> None:
    """Sits in a call that keeps the interpreter's lock, so that no other thread runs."""
    leave_with_parent()
    end = inherited_socket(number)
    end.sendall(framed(b"up"))
    sum(range(10**12))


def stop(number: str) -> None:
    """Is stopped, so that nothing in it runs at all."""
    leave_with_parent()
    end = inherited_socket(number)
    end.sendall(framed(b"up"))
    os.kill(os.getpid(), signal.SIGSTOP)


def late(number: str) -> None:
    """Looks to its parent only when that has long gone."""
    end = inherited_socket(number)
    end.sendall(framed(b"up"))
    while os.read(0, 1):
        pass
    leave_with_parent()
    time.sleep(60)


def spawn(number: str) -> None:
    """Starts a program that outlives it, tells its process id, and is killed."""
    import subprocess

    end = inherited_socket(number)
    program = [sys.executable, "-c", "import time; time.sleep(60)"]
    started = subprocess.Popen(program, close_fds=False)
    end.sendall(framed(str(started.pid).encode()))
    os.kill(os.getpid(), signal.SIGKILL)


def parent(number: str) -> None:
    """Is itself the parent of a worker of the kind in KIND, and says when that is up."""
    import trio

    from headrace.runtime.process import open_worker

    end = inherited_socket(number)

    async def keep() -> None:
        argv = [sys.executable, __file__, os.environ["KIND"]]
        async with open_worker(argv, name="grandchild") as worker:
            await worker.link.receive()
            end.sendall(framed(str(worker.pid).encode()))
            await trio.sleep_forever()

    trio.run(keep)


KINDS: list[Callable[[str], None]] = [
    echo, flood, leave, babble, linger, stay, sleep, hold, stop, late, spawn, parent,
]  # fmt: skip

if __name__ == "__main__":
    kind, number = sys.argv[1:]
    next(known for known in KINDS if known.__name__ == kind)(number)
