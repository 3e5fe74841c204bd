#!/usr/bin/env python3
"""How soon `headrace serve` listens, and with how much memory. Takes about 20 s.

    python bench/start.py [MODEL] --starts 5
    python bench/start.py --imports

A start is from exec to the first accepted TCP connection; the model is still loading then. Each
mode has one start more that is not counted, so that files come from memory. Beside it the same
for a bare interpreter, and for one that has only imported the server's libraries: what is left
between these and ours is our own. The claim is that worker mode listens within a second.
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

from served import free_port, verdict

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


def listens_after(model: str | None, *options: str) -> float:
    """Seconds from exec until a connection is accepted; the server is ended at once."""
    port = free_port()
    began = time.perf_counter()
    process = start(model, port, "--log-level", "error", *options)
    try:
        while time.perf_counter() < began + START_SECONDS:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return time.perf_counter() - began
            if process.poll() is not None:
                break
            time.sleep(LOOK_SECONDS)
        raise SystemExit("the server did not start")
    finally:
        stop(process)


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


def measure(name: str, once: Callable[[], float], count: int) -> float:
    """The median of so many runs, after one that is not counted."""
    once()
    seconds = sorted(once() for _ in range(count))
    middle = statistics.median(seconds)
    print(f"{name:28} {middle:7.3f} {seconds[0]:7.3f} {seconds[-1]:7.3f}", flush=True)
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
    print(f"{'seconds':28} {'median':>7} {'best':>7} {'worst':>7}")
    measure("an interpreter", lambda: runs_for("pass"), options.starts)
    measure("with the libraries imported", lambda: runs_for(LIBRARIES), options.starts)
    served = measure("listens, worker mode", lambda: listens_after(options.model), options.starts)
    measure("listens, in one process", lambda: listens_after(options.model, "--in-process"), 3)
    verdict({f"it listens within {options.limit_seconds} s": served <= options.limit_seconds})


if __name__ == "__main__":
    main()
