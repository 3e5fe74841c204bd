#!/usr/bin/env python3
"""What a worker process costs: worker mode against in-process mode, in one run.

    python bench/link.py [MODEL] --widths 1,8 --rounds 5

Two servers of the same model, of which one works at a time, take turns with the same requests.
The table has medians of tokens per second, the extra time per token of worker mode in
microseconds and as a share, from the medians of the rounds' ratios. Beside it: resident memory of
both parents, and the time from exec to the first accepted connection.
"""

from __future__ import annotations

import argparse
import signal
import socket
import statistics
import subprocess
import sys
import time

import trio
from cancel import prompt
from served import Served, served
from streams import Run, closed_loop

from headrace.actors.library import DEFAULT_MODEL

STARTS = 5


def resident_mib(pid: int) -> float:
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=True)
    return int(told.stdout) / 1024


def start_seconds(model: str | None, *options: str) -> float:
    """From exec until a connection is accepted; the server is ended at once."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    argv = [sys.executable, "-m", "headrace.http", "serve", *([model] if model else [])]
    began = time.perf_counter()
    process = subprocess.Popen([*argv, "--port", str(port), "--log-level", "error", *options])
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return time.perf_counter() - began
            except OSError:
                if process.poll() is not None:
                    raise SystemExit("the server did not start") from None
                time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def one_round(server: Served, turn: int, width: int, options: argparse.Namespace) -> Run:
    texts = [prompt(options.prompt_tokens, 1000 * turn + n) for n in range(2 * width)]
    return trio.run(closed_loop, server, texts, width, options)


def compare(
    servers: tuple[Served, Served], width: int, options: argparse.Namespace
) -> tuple[list[float], list[float]]:
    """Tokens per second of (worker mode, in-process mode), round by round; who is first changes."""
    rates: tuple[list[float], list[float]] = ([], [])
    for turn in range(options.rounds):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            run = one_round(servers[which], turn, width, options)
            rates[which].append(run.tokens / run.seconds)
    return rates


def report(width: int, worker: list[float], local: list[float]) -> None:
    # Seconds that a token of one stream of the batch takes longer.
    extra = [width / w - width / p for w, p in zip(worker, local, strict=True)]
    ratios = [w / p for w, p in zip(worker, local, strict=True)]
    print(
        f"{width:3} {statistics.median(worker):10.1f} {statistics.median(local):10.1f}"
        f" {statistics.median(ratios):8.3f} ({min(ratios):.3f}..{max(ratios):.3f})"
        f" {statistics.median(extra) * 1e6:10.0f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default=DEFAULT_MODEL)
    parser.add_argument("--widths", default="1,8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt-tokens", type=int, default=60)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--starts", type=int, default=STARTS)
    options = parser.parse_args()
    for name, mode in (("worker mode", ()), ("in-process", ("--in-process",))):
        starts = [start_seconds(options.model, *mode) for _ in range(options.starts)]
        print(
            f"{name}: listens after {statistics.median(starts):.2f} s "
            f"(best {min(starts):.2f}, worst {max(starts):.2f})",
            flush=True,
        )
    quiet = ("--log-level", "warning")
    with (
        served(options.model, *quiet) as worker,
        served(options.model, "--in-process", *quiet) as local,
    ):
        print("  B worker t/s  local t/s    ratio (worst..best)   us/token more")
        for width in map(int, options.widths.split(",")):
            report(width, *compare((worker, local), width, options))
        engine = worker.get_json("/engine")
        print(
            f"resident: parent of a worker {resident_mib(worker.process.pid):.0f} MiB, "
            f"its worker {resident_mib(engine['pid']):.0f} MiB, "
            f"one process for both {resident_mib(local.process.pid):.0f} MiB"
        )


if __name__ == "__main__":
    main()
