"""Another program, run to its end. The only place below the edge that starts one to wait for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_POLL_SECONDS = 0.2
_END_SECONDS = 5.0
_LINES_KEPT = 5


class CommandFailed(Exception):
    """The program ended with a failure; the argument is the last it wrote."""


def run_command(
    arguments: Sequence[str],
    output: Path,
    watch: Callable[[], None] = lambda: None,
    environment: Mapping[str, str] | None = None,
    *,
    lifeline: bool = False,
) -> None:
    """Run a program, with all it writes going to the file `output`.

    `watch` is called when it has started, and a few times a second from then on. Whatever ends
    this call, the program has ended too; with a `lifeline` one of ours can see our end even where
    we are killed (`runtime.worker_side`). `environment` is added to our own. Raises
    `CommandFailed`.
    """
    with (
        output.open("wb") as sink,
        subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE if lifeline else subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            # The folder of the caller may hold modules that shadow the program's own.
            cwd=output.parent,
        ) as child,
    ):
        try:
            watch()
            while _running(child):
                watch()
        except BaseException:
            _end(child)
            raise
    if child.returncode < 0:
        raise CommandFailed(f"ended by signal {-child.returncode}")
    if child.returncode > 0:
        raise CommandFailed(_last_lines(output) or f"exit status {child.returncode}")


def _running(child: subprocess.Popen[bytes]) -> bool:
    try:
        child.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _last_lines(output: Path) -> str:
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join([line for line in lines if line.strip()][-_LINES_KEPT:])
