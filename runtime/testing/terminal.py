"""A command at a terminal of its own: keys that are typed, and what stands on the screen."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CTRL_C = "\x03"
CTRL_D = "\x04"
# The session's terminal is where Ctrl-C comes from, so the child must make it its own.
PROGRAM = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from headrace.http.cli import main
main(prog_name="headrace")
"""
PATIENCE_SECONDS = 60.0
END_SECONDS = 60.0
# Until a key counts as lost.
AGAIN_SECONDS = 5.0


class Terminal:
    """`shown` is everything that was written to the screen and not yet waited for."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self.shown = ""
        self._descriptor = descriptor

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def until(self, text: str, *, within: float = PATIENCE_SECONDS) -> str:
        """Wait for a text on the screen; what stood before it. Raises `TimeoutError`."""
        deadline = time.monotonic() + within
        while text not in self.shown:
            if not self._read(max(0.0, deadline - time.monotonic())):
                raise TimeoutError(f"no {text!r} in {self.shown[-500:]!r}")
        before, _, self.shown = self.shown.partition(text)
        return before

    def press(self, key: str, text: str) -> None:
        """Press a key until a text shows. Python does not see a Ctrl-C that comes in the instant
        before it waits for a line; people press it again."""
        for _ in range(int(PATIENCE_SECONDS / AGAIN_SECONDS)):
            self.type(key)
            with suppress(TimeoutError):
                self.until(text, within=AGAIN_SECONDS)
                return
        raise TimeoutError(f"no {text!r} after {key!r} in {self.shown[-500:]!r}")

    def end(self) -> int:
        """Wait until the command has ended; its exit code. Raises `TimeoutError`."""
        deadline = time.monotonic() + END_SECONDS
        while self._read(max(0.0, deadline - time.monotonic())):
            if time.monotonic() > deadline:
                raise TimeoutError(f"it goes on: {self.shown[-500:]!r}")
        return self.process.wait(END_SECONDS)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        try:
            data = os.read(self._descriptor, 65536) if ready else b""
        except OSError:  # how Linux tells that the other side has been closed
            data = b""
        self.shown += data.decode(errors="replace")
        return bool(data)


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    """`headrace` with these arguments; killed on the way out if it still runs."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True, env=environment,
        )  # fmt: skip
        os.close(theirs)
        try:
            yield Terminal(process, ours)
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(ours)
