"""`headrace serve` as a process of its own: the real command, the real model, real sockets."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# With a model that is on this machine already; the first run on one fetches it.
START_SECONDS = 300.0
# More than what a server gives its requests to end, which is its setting of that name.
STOP_SECONDS = 60.0
LOOK_SECONDS = 0.02
# Some hosts set the first two for another processor; they choose slower kernels. With the last a
# server compiles all its modules at each start, as no installation does.
MISLEADING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONDONTWRITEBYTECODE")

_LISTENING = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")


class Serving:
    """A running server, its address, and plain looks at what it says of itself.

    `log` is the file that has what it logged.
    """

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            return connection.getresponse().read()
        finally:
            connection.close()

    def get_json(self, path: str) -> Any:
        return json.loads(self.get(path))

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        total = 0.0
        for line in self.get("/metrics").decode().splitlines():
            match = re.fullmatch(rf"{name}(?:\{{(.*)\}})? (\S+)", line)
            if match and all(
                f'{key}="{value}"' in (match[1] or "") for key, value in labels.items()
            ):
                total += float(match[2])
        return total

    def until(self, holds: Callable[[], bool], *, within: float = 60.0) -> None:
        """Wait for something that the server does in its own time. Raises `TimeoutError`."""
        deadline = time.monotonic() + within
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {within} s")
            time.sleep(LOOK_SECONDS)

    def faults(self) -> list[str]:
        """The lines of its log that tell of errors."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [line for line in lines if "[error" in line or line.startswith("Traceback")]


@contextmanager
def serving(*options: str, model: str | None = None) -> Iterator[Serving]:
    """A server on a free port, with these options of the command line; stopped on the way out.

    It listens, and its first model may still be loading: a request waits for that.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-serving-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as sink:
            process = start(model, 0, *options, output=sink)
        try:
            yield Serving(process, listening_port(process, log), log)
        finally:
            stop(process)


def start(
    model: str | None, port: int, *options: str, output: Any = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """`headrace serve`, which may not listen yet. Its output goes to `output`, a file."""
    argv = [sys.executable, "-m", "headrace.http", "serve", *([model] if model else [])]
    argv += ["--port", str(port), *options]
    environment = {name: value for name, value in os.environ.items() if name not in MISLEADING}
    return subprocess.Popen(argv, env=environment, stdout=output, stderr=output)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def listening_port(process: subprocess.Popen[bytes], log: Path) -> int:
    """The port in the line that says where the server listens."""
    deadline = time.monotonic() + START_SECONDS
    while (found := _LISTENING.search(log.read_text(encoding="utf-8"))) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the server did not start:\n" + log.read_text(encoding="utf-8"))
        time.sleep(LOOK_SECONDS)
    return int(found[1])
