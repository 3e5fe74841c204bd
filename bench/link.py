#!/usr/bin/env python3
"""What a worker process costs: worker mode against in-process mode, in one run.

    python bench/link.py [MODEL] --seconds 180                 less than 4 minutes
    python bench/link.py --scripted                            about 10 seconds

First the link alone, with a scripted engine whose steps take 5 ms and compute nothing: processor
time and wall time of a step in each mode. Then two servers of the real model, which are both up
and work in turns, A B B A, each with the same short round of requests: so what the machine does
besides falls on both alike, and what slowly changes is the same for both. Told are tokens per
second by the clock, and the processor time of a token, of all processes of a server together,
which other work on the machine hardly changes; of each the median, and of the ratios of the pairs
of rounds the median with its quartiles. Last the resident memory of each process. The claim is
that worker mode keeps 97 % of the rate at the widest; a run whose upper quartile is below that
says no, and one whose median is says that it is not shown.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import time
from functools import partial
from typing import TypeAlias

import attrs
import trio
from cancel import prompt
from served import Served, process_seconds, served, verdict
from streams import Run, closed_loop

from headrace.actors.library import DEFAULT_MODEL
from headrace.actors.runtime import Runtime, open_runtime
from headrace.runtime.settings import Settings
from headrace.runtime.testing.planned import WorkerModel
from headrace.runtime.testing.runtime import asking
from headrace.runtime.testing.workers import provision

KEPT = 0.97
# The first of them is not counted.
LEAST_PAIRS = 3
STEP_SECONDS = 0.005
SCRIPTED_TOKENS = 400


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
        began, parent, worker = time.perf_counter(), time.process_time(), process_seconds(pid)
        await crowd(runtime, width, SCRIPTED_TOKENS)
        return Spent(
            (time.perf_counter() - began) / SCRIPTED_TOKENS,
            (time.process_time() - parent) / SCRIPTED_TOKENS,
            (process_seconds(pid) - worker) / SCRIPTED_TOKENS,
        )


async def crowd(runtime: Runtime, width: int, tokens: int) -> None:
    async def one(number: int) -> None:
        async with runtime.request(asking(f"{number}", max_tokens=tokens)) as generation:
            async for _ in generation:
                pass

    async with trio.open_nursery() as nursery:
        for number in range(width):
            nursery.start_soon(one, number)


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


# What worker mode and in-process mode did with the same round of requests.
Pair: TypeAlias = tuple[Run, Run]


def compare(servers: tuple[Served, Served], width: int, options: argparse.Namespace) -> list[Pair]:
    """Pairs of rounds of (worker mode, in-process mode) for so many seconds; who is first changes
    from pair to pair. The first pair is not counted: memory and kernels are warm after it."""
    deadline = time.monotonic() + options.seconds
    pairs: list[Pair] = []
    while time.monotonic() < deadline or len(pairs) < LEAST_PAIRS:
        first, seed = len(pairs) % 2, 1000 * (100 * width + len(pairs))
        texts = [prompt(options.prompt_tokens, seed + number) for number in range(width)]
        done = {
            which: trio.run(closed_loop, servers[which], texts, width, options)
            for which in (first, 1 - first)
        }
        pairs.append((done[0], done[1]))
    return pairs[1:]


@attrs.frozen
class Ratio:
    """Of the pairs' ratios the lower quartile, the median and the upper quartile."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, ratios: list[float]) -> Ratio:
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return cls(low, middle, high)

    def __str__(self) -> str:
        return f"{self.middle:.3f} ({self.low:.3f}..{self.high:.3f})"


def report(width: int, pairs: list[Pair]) -> Ratio:
    """Print two lines; the share of the rate that worker mode keeps."""
    rates = [[one.rate for one in side] for side in zip(*pairs, strict=True)]
    costs = [[one.cost * 1000 for one in side] for side in zip(*pairs, strict=True)]
    kept = Ratio.of([worker.rate / local.rate for worker, local in pairs])
    dearer = Ratio.of([worker.cost / local.cost for worker, local in pairs])
    for name, (worker, local), ratio in (
        ("tokens/s", rates, kept),
        ("CPU ms/token", costs, dearer),
    ):
        middles = f"{statistics.median(worker):10.2f} {statistics.median(local):12.2f}"
        print(f"{width:3} {name:14} {middles}   {ratio}", flush=True)
    print(f"    {len(pairs)} pairs of rounds")
    return kept


def real(widths: list[int], options: argparse.Namespace) -> Ratio:
    """The share that worker mode keeps at the last of the widths."""
    quiet = ("--log-level", "warning")
    with (
        served(options.model, *quiet) as worker,
        served(options.model, "--in-process", *quiet) as local,
    ):
        (process,) = worker.worker_pids()
        print("  B                    workers   in-process   ratio (quartiles)")
        kept = [report(width, compare((worker, local), width, options)) for width in widths]
        print(
            f"resident: parent of a worker {resident_mib(worker.process.pid):.0f} MiB, "
            f"its worker {resident_mib(process):.0f} MiB, "
            f"one process for both {resident_mib(local.process.pid):.0f} MiB"
        )
    return kept[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default=DEFAULT_MODEL)
    parser.add_argument("--widths", default="8")
    parser.add_argument("--seconds", type=float, default=180.0, help="for each of the widths")
    parser.add_argument("--prompt-tokens", type=int, default=40)
    parser.add_argument("--max-tokens", type=int, default=24)
    parser.add_argument("--scripted", action="store_true", help="the link alone")
    options = parser.parse_args()
    link_alone([1, 8])
    if options.scripted:
        return
    kept = real([int(width) for width in options.widths.split(",")], options)
    verdict(
        {
            f"worker mode keeps {KEPT:.0%} of the rate": kept.high >= KEPT,
            f"{KEPT:.0%} is shown: the pairs' median is there": kept.middle >= KEPT,
        }
    )


if __name__ == "__main__":
    main()
