"""Ten thousand connections that say nothing, and what /health and a chat take beside them.

    python bench/idle_connections.py [--connections 10000]

The server is a process of its own with the scripted model, so its memory and files can be counted.
A third of the connections have said nothing, a third half a request line, and a third one whole
request. Both processes need that many open files: the limit is raised as far as it may be.
"""

from __future__ import annotations

import argparse
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headrace.runtime.testing.site import Reply, chat, http

SERVER = """
import trio
from headrace.runtime.testing.site import open_site
async def main():
    async with open_site(header_timeout_s=600, keep_alive_seconds=600) as site:
        print(site.port, flush=True)
        await trio.sleep_forever()
trio.run(main)
"""
BEGINNINGS = (b"", b"GET /hea", http("GET", "/health", close=False))
# Some ports are taken, and some addresses are waiting: more source addresses make more of them.
PER_ADDRESS = 8000
ROUNDS = 50


def raise_file_limit() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else soft


@contextmanager
def server() -> Iterator[tuple[int, int]]:
    """Its process id and port."""
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


def connect(port: int, number: int) -> socket.socket:
    source = f"127.0.0.{2 + number // PER_ADDRESS}"
    client = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(source, 0))
    client.sendall(BEGINNINGS[number % len(BEGINNINGS)])
    return client


def ask(port: int, request: bytes) -> float:
    """Seconds until the whole answer is there, on a connection of its own."""
    began = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(request)
        data = b"".join(iter(lambda: client.recv(65536), b""))
    assert Reply.of(data).status == 200
    return time.perf_counter() - began


def resident_mib(pid: int) -> float:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def tell(what: str, pid: int, port: int) -> None:
    for name, request in (("/health", http("GET", "/health")), ("chat", chat(max_tokens=1))):
        print(f"{what:24} {name:8} {figures([ask(port, request) for _ in range(ROUNDS)])}")
    print(f"{what:24} server   {resident_mib(pid):.0f} MiB")


def figures(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    median, last = statistics.median(ordered), ordered[-1]
    return f"median {median * 1000:.1f} ms, slowest of {len(ordered)} {last * 1000:.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--connections", type=int, default=10_000)
    count = parser.parse_args().connections
    if raise_file_limit() < count + 100:
        raise SystemExit(f"the limit of open files does not allow {count} connections")
    with server() as (pid, port):
        tell("nobody else", pid, port)
        began = time.perf_counter()
        clients = [connect(port, number) for number in range(count)]
        print(f"{count} connections in {time.perf_counter() - began:.1f} s")
        tell(f"{count} idle", pid, port)
        for client in clients:
            client.close()
        time.sleep(1)
        tell("after they left", pid, port)


if __name__ == "__main__":
    main()
