"""Processes as the system shows them."""

from __future__ import annotations

import subprocess

import attrs
import trio


@attrs.frozen
class Process:
    pid: int
    parent: int
    resident_bytes: int


async def children(pid: int) -> dict[int, Process]:
    """The living children of a process, and itself."""
    told = await trio.run_process(["ps", "-axo", "pid=,ppid=,rss=,stat="], capture_stdout=True)
    found = {}
    for line in told.stdout.decode().splitlines():
        number, parent, kib, state = line.split(maxsplit=3)
        process = Process(int(number), int(parent), int(kib) * 1024)
        if pid in (process.pid, process.parent) and not state.startswith("Z"):
            found[process.pid] = process
    return found


def still_alive(pids: set[int], words: str) -> list[int]:
    """Which of these processes live and have the words in their command line."""
    told = subprocess.run(["ps", "-axo", "pid=,stat=,command="], capture_output=True, check=True)
    lines = [line.split(maxsplit=2) for line in told.stdout.decode().splitlines()]
    return [
        int(number)
        for number, state, command in lines
        if int(number) in pids and words in command and not state.startswith("Z")
    ]
