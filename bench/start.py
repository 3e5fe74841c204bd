#!/usr/bin/env python3
"""How soon `headrace serve` listens and answers. Takes about 40 s.

    python bench/start.py [MODEL] --starts 5
    python bench/start.py --imports

Three times from exec: to the first accepted TCP connection, when the server is not imported yet
and the model neither; to the answer that this connection gets to `GET /health`; and to that of a
chat of one token, sent at the same moment as the other. Each mode has one start more that is not
counted, so that files come from memory. Beside it the time of a bare interpreter, and of one that
has only imported the server's libraries: what is left between that and the first answer is our
own. The claim is that worker mode listens within a second.
`--imports` tells instead which packages the time of importing goes to: for each module the least
of five runs, which other work on the machine hardly changes; and how long a full collection takes
that looks at all of it, as it does unless it is told not to.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import socket
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable

import attrs
from served import chat, free_port, verdict

from headrace.actors.library import DEFAULT_MODEL
from headrace.runtime.testing.serving import start, stop

LIMIT_SECONDS = 1.0
LOOK_SECONDS = 0.001
START_SECONDS = 60.0
# What `headrace serve` has imported when it listens.
SERVER = """
import headrace.http.cli, headrace.http.logs, headrace.http.opening, headrace.http.run_file
import headrace.actors.library, headrace.actors.provision, headrace.http.serve, rich.console
"""
COLLECTION = """
import gc, time
began = time.perf_counter()
gc.collect()
print((time.perf_counter() - began) * 1000)
"""
LIBRARIES = "import trio, quart_trio, hypercorn.trio, msgspec, attrs"


@attrs.frozen
class Start:
    """Seconds from exec."""

    connected: float
    healthy: float
    chatted: float


def start_of(model: str | None, *options: str) -> Start:
    """One start; the server is ended as soon as the chat is answered."""
    port = free_port()
    began = time.perf_counter()
    process = start(model, port, "--log-level", "error", *options)
    try:
        health = connected(process, port)
        first = time.perf_counter() - began
        with health, socket.create_connection(("127.0.0.1", port), START_SECONDS) as chats:
            health.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            chats.sendall(chat("hi", "first", max_tokens=1))
            answered(health)
            healthy = time.perf_counter() - began
            answered(chats)
            return Start(first, healthy, time.perf_counter() - began)
    finally:
        stop(process)


def connected(process: subprocess.Popen[bytes], port: int) -> socket.socket:
    deadline = time.perf_counter() + START_SECONDS
    while time.perf_counter() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            return socket.create_connection(("127.0.0.1", port), START_SECONDS)
        time.sleep(LOOK_SECONDS)
    raise SystemExit("the server did not start")


def answered(connection: socket.socket) -> None:
    if not connection.recv(1 << 16).startswith(b"HTTP/1.1 200 "):
        raise SystemExit("the server did not answer")


def runs_for(program: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    return time.perf_counter() - began


def imports(runs: int) -> dict[str, float]:
    """Milliseconds by package, itself alone, without what it imports."""
    least: dict[str, float] = {}
    for _ in range(runs):
        command = [sys.executable, "-X", "importtime", "-c", SERVER]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stderr
        for line in told.splitlines()[1:]:
            own, _, module = line.removeprefix("import time:").split("|")
            name = module.strip()
            least[name] = min(least.get(name, math.inf), int(own) / 1000)
    packages: defaultdict[str, float] = defaultdict(float)
    for name, milliseconds in least.items():
        depth = 2 if name.startswith("headrace.") else 1
        packages[".".join(name.split(".")[:depth])] += milliseconds
    return packages


def collection() -> float:
    """Milliseconds of a full collection over what is imported."""
    command = [sys.executable, "-c", SERVER + COLLECTION]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(name: str, once: Callable[[], float], count: int) -> None:
    """So many runs, after one that is not counted."""
    once()
    shown(name, [once() for _ in range(count)])


def starts(name: str, count: int, *arguments: str) -> float:
    """The median seconds until it listens, of so many starts after one that is not counted."""
    start_of(*arguments)
    found = [start_of(*arguments) for _ in range(count)]
    shown(f"answers /health, {name}", [one.healthy for one in found])
    shown(f"answers a chat, {name}", [one.chatted for one in found])
    return shown(f"listens, {name}", [one.connected for one in found])


def shown(name: str, seconds: list[float]) -> float:
    middle = statistics.median(seconds)
    print(f"{name:30} {middle:7.3f} {min(seconds):7.3f} {max(seconds):7.3f}", flush=True)
    return middle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default=DEFAULT_MODEL)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--limit-seconds", type=float, default=LIMIT_SECONDS)
    parser.add_argument("--imports", action="store_true")
    options = parser.parse_args()
    if options.imports:
        found = imports(options.starts)
        most = sorted(found.items(), key=lambda item: -item[1])[:20]
        for package, milliseconds in [("all", sum(found.values())), *most]:
            print(f"{package:28} {milliseconds:7.1f} ms")
        print(f"{'a full collection':28} {collection():7.1f} ms")
        return
    print(f"{'seconds':30} {'median':>7} {'best':>7} {'worst':>7}")
    measure("an interpreter", lambda: runs_for("pass"), options.starts)
    measure("with the libraries imported", lambda: runs_for(LIBRARIES), options.starts)
    served = starts("worker mode", options.starts, options.model)
    starts("in one process", 3, options.model, "--in-process")
    verdict({f"it listens within {options.limit_seconds} s": served <= options.limit_seconds})


if __name__ == "__main__":
    main()
