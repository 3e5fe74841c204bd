"""A headrace server of its own for a measurement, and raw looks at it. Loopback only.

What the server logs goes to a file, so that a script's table stays a table. Errors in it are
shown when the server has ended, below the table.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headrace.runtime.testing.serving import START_SECONDS, Serving, start, stop

LOG_LINES = 20
TICKS = 100  # of a second, in /proc


class Served(Serving):
    """A running server that is looked at on one connection, as looks are to disturb little."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        super().__init__(process, port, log)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def get(self, path: str) -> bytes:
        try:
            return self._looked(path)
        except http.client.RemoteDisconnected:
            # It was not used for longer than the server keeps a connection.
            self._connection.close()
            return self._looked(path)

    def _looked(self, path: str) -> bytes:
        self._connection.request("GET", path)
        return self._connection.getresponse().read()

    def worker_pids(self) -> set[int]:
        """Of its processes beside the one that listens."""
        pids = {worker["pid"] for worker in self.get_json("/engine")["workers"]}
        return pids - {None, self.process.pid}

    def processor_seconds(self) -> float:
        """Processor time of all its processes so far."""
        return sum(map(process_seconds, {self.process.pid, *self.worker_pids()}))

    def idle(self) -> bool:
        return self.metric("headrace_requests_in_flight") == 0

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=120)


def process_seconds(pid: int | None) -> float:
    """Processor time of a process so far, in user and system mode; none for no process."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def served(model: str | None, *options: str) -> Iterator[Served]:
    """`headrace serve` on a free port, ready for requests; stopped on the way out."""
    port = free_port()
    # A script that is told to end takes its server along.
    signal.signal(signal.SIGTERM, _leave)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = start(model, port, *options, output=output)
        try:
            server = Served(process, port, log)
            wait_ready(server)
            yield server
        except BaseException:
            tell(log.read_text(errors="replace").splitlines()[-LOG_LINES:])
            raise
        finally:
            stop(process)
        tell([line for line in log.read_text(errors="replace").splitlines() if "[error" in line])


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def tell(lines: Sequence[str]) -> None:
    """Lines of a server's log, beside what the script itself has to say."""
    for line in lines:
        print(f"server: {line}", file=sys.stderr)


def verdict(claims: dict[str, bool]) -> None:
    """The last line: `ok`, or what did not hold, with exit code 1."""
    broken = [claim for claim, holds in claims.items() if not holds]
    if broken:
        raise SystemExit("NOT ok: " + "; ".join(broken))
    print("ok", flush=True)


def wait_ready(server: Served) -> None:
    """Until the first model has answered one token."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            warm = http.client.HTTPConnection("127.0.0.1", server.port, timeout=START_SECONDS)
            body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1})
            warm.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            if warm.getresponse().status == 200:
                return
        if server.process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("the server did not start")
        time.sleep(0.2)


def chat(prompt: str, request_id: str, *, version: str = "1.1", **fields: Any) -> bytes:
    """The bytes of one chat request."""
    body = json.dumps({"messages": [{"role": "user", "content": prompt}], **fields}).encode()
    head = [
        f"POST /v1/chat/completions HTTP/{version}",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-Request-ID: {request_id}",
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def median_and_worst(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    middle = ordered[len(ordered) // 2] * 1000
    return f"{middle:8.1f} {ordered[-1] * 1000:8.1f}"
