#!/usr/bin/env python3
"""What a worker process costs: worker mode against in-process mode, in one run.

    python bench/link.py [MODEL] --widths 1,8 --rounds 5       about 5 minutes
    python bench/link.py --scripted                            about 10 seconds

First the link alone, with a scripted engine whose steps take 5 ms and compute nothing: processor
time and wall time of a step in each mode. Then two servers of the real model, of which one works
at a time and takes turns with the same requests, after one round that is not counted: medians of
tokens per second, of the rounds' ratios, and of the extra time per token. Last the resident
memory of each process. The claim is that worker mode keeps 97 % of the rate at the widest.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import time
from functools import partial
from pathlib import Path

import attrs
import trio
from cancel import prompt
from served import Served, served, verdict
from streams import Run, closed_loop

from headrace.actors.library import DEFAULT_MODEL
from headrace.actors.runtime import Runtime, open_runtime
from headrace.runtime.settings import Settings
from headrace.runtime.testing.planned import WorkerModel
from headrace.runtime.testing.runtime import asking
from headrace.runtime.testing.workers import provision

KEPT = 0.97
STEP_SECONDS = 0.005
SCRIPTED_TOKENS = 400
TICKS = 100  # of a second, in /proc


# ---- the link alone -----------------------------------------------------------------------------


@attrs.frozen
class Spent:
    """Of one step: seconds on the clock, and of a processor in this process and in the worker."""

    wall: float
    parent: float
    worker: float


async def scripted(width: int, *, in_process: bool) -> Spent:
    model = WorkerModel(id="scripted", decode_seconds=STEP_SECONDS)
    settings = Settings(in_process=in_process)
    async with open_runtime(settings, provision=provision(model)) as runtime:
        await runtime.load("scripted")
        await crowd(runtime, width, 20)
        pid = runtime.model("scripted").worker.pid
        began, parent, worker = time.perf_counter(), time.process_time(), worker_seconds(pid)
        await crowd(runtime, width, SCRIPTED_TOKENS)
        return Spent(
            (time.perf_counter() - began) / SCRIPTED_TOKENS,
            (time.process_time() - parent) / SCRIPTED_TOKENS,
            (worker_seconds(pid) - worker) / SCRIPTED_TOKENS,
        )


async def crowd(runtime: Runtime, width: int, tokens: int) -> None:
    async def one(number: int) -> None:
        async with runtime.request(asking(f"{number}", max_tokens=tokens)) as generation:
            async for _ in generation:
                pass

    async with trio.open_nursery() as nursery:
        for number in range(width):
            nursery.start_soon(one, number)


def worker_seconds(pid: int | None) -> float:
    """Processor time of a process so far, in user and system mode."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def link_alone(widths: list[int]) -> None:
    print("one step of the scripted engine, in ms: on the clock, of a processor")
    print("  B   worker mode: clock  parent  worker   in-process: clock  processor")
    for width in widths:
        worker = trio.run(partial(scripted, width, in_process=False))
        local = trio.run(partial(scripted, width, in_process=True))
        figures = (worker.wall, worker.parent, worker.worker, local.wall, local.parent)
        columns = [f"{seconds * 1000:8.3f}" for seconds in figures]
        print(f"{width:3} {'':12}" + "".join(columns[:3]) + f"{'':11}" + "  ".join(columns[3:]))


# ---- with the real model ------------------------------------------------------------------------


def resident_mib(pid: int) -> float:
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=True)
    return int(told.stdout) / 1024


def one_round(server: Served, turn: int, width: int, options: argparse.Namespace) -> Run:
    texts = [prompt(options.prompt_tokens, 1000 * turn + n) for n in range(2 * width)]
    return trio.run(closed_loop, server, texts, width, options)


def compare(
    servers: tuple[Served, Served], width: int, options: argparse.Namespace
) -> tuple[list[float], list[float]]:
    """Tokens per second of (worker mode, in-process mode), round by round; who is first changes.

    The round before the first is not counted: memory and kernels are then warm in both.
    """
    rates: tuple[list[float], list[float]] = ([], [])
    for turn in range(-1, options.rounds):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            run = one_round(servers[which], 10 * width + turn, width, options)
            if turn >= 0:
                rates[which].append(run.tokens / run.seconds)
    return rates


def report(width: int, worker: list[float], local: list[float]) -> float:
    """Print a line; the median share of the rate that worker mode keeps."""
    # Seconds that a token of one stream of the batch takes longer.
    extra = [width / w - width / p for w, p in zip(worker, local, strict=True)]
    ratios = [w / p for w, p in zip(worker, local, strict=True)]
    kept = statistics.median(ratios)
    print(
        f"{width:3} {statistics.median(worker):10.1f} {statistics.median(local):10.1f}"
        f" {kept:8.3f} ({min(ratios):.3f}..{max(ratios):.3f})"
        f" {statistics.median(extra) * 1e6:10.0f}",
        flush=True,
    )
    return kept


def real(widths: list[int], options: argparse.Namespace) -> float:
    """The share that worker mode keeps at the last of the widths."""
    quiet = ("--log-level", "warning")
    with (
        served(options.model, *quiet) as worker,
        served(options.model, "--in-process", *quiet) as local,
    ):
        print("  B worker t/s  local t/s    ratio (worst..best)   us/token more")
        kept = [report(width, *compare((worker, local), width, options)) for width in widths]
        engine = worker.get_json("/engine")
        print(
            f"resident: parent of a worker {resident_mib(worker.process.pid):.0f} MiB, "
            f"its worker {resident_mib(engine['pid']):.0f} MiB, "
            f"one process for both {resident_mib(local.process.pid):.0f} MiB"
        )
    return kept[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default=DEFAULT_MODEL)
    parser.add_argument("--widths", default="1,8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt-tokens", type=int, default=60)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--scripted", action="store_true", help="the link alone")
    options = parser.parse_args()
    widths = [int(width) for width in options.widths.split(",")]
    link_alone(widths)
    if options.scripted:
        return
    verdict({f"worker mode keeps {KEPT:.0%} of the rate": real(widths, options) >= KEPT})


if __name__ == "__main__":
    main()
