#!/usr/bin/env python3
"""Streams over HTTP against mlx-lm's bare BatchGenerator loop, in one run.

    python bench/streams.py [MODEL] --widths 1,8 --rounds 5        about 6 minutes
    python bench/streams.py --widths 32 --rounds 5 --prompt-tokens 24 --max-tokens 24

Both keep B requests going until all are done: the server through B sockets, the bare loop in a
process of its own that is loaded once and idle while the server works. Same prompts, same number
of tokens, greedy. Rounds alternate and change who goes first. The table gives medians, that of the
rounds' ratios, and as `work` that of the ratios of processor time for a token, in all processes of
a side, which minds other work on the machine less.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import attrs
import trio
from cancel import prompt
from served import Served, chat, served

from headrace.actors.library import DEFAULT_MODEL, library_at
from headrace.runtime.settings import Settings


@attrs.define
class Run:
    """What one closed loop brought, over HTTP with its streams' times. All in seconds."""

    tokens: int = 0
    seconds: float = 0.0
    # Of the processor, in all processes.
    worked: float = 0.0
    first: list[float] = attrs.field(factory=list)
    gaps: list[float] = attrs.field(factory=list)

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds

    @property
    def cost(self) -> float:
        """Processor time of a token."""
        return self.worked / self.tokens


async def ask(port: int, name: str, text: str, options: argparse.Namespace, run: Run) -> None:
    """One streamed request, timed chunk by chunk."""
    body = chat(
        text,
        name,
        stream=True,
        stream_options={"include_usage": True},
        max_tokens=options.max_tokens,
        temperature=0,
        ignore_eos=True,
    )
    began = last = time.perf_counter()
    seen = b""
    async with await trio.open_tcp_stream("127.0.0.1", port) as client:
        await client.send_all(body)
        while b"data: [DONE]" not in seen:
            data = await client.receive_some(65536)
            if not data:
                raise SystemExit(f"a stream broke off: {seen[-300:]!r}")
            now = time.perf_counter()
            if b'"content":"' in data and b'"role"' not in data:
                (run.gaps if last > began else run.first).append(now - last)
                last = now
            seen += data
    usage = next(line for line in reversed(seen.splitlines()) if b'"usage":{' in line)
    run.tokens += json.loads(usage.removeprefix(b"data: "))["usage"]["completion_tokens"]


async def closed_loop(
    server: Served, texts: Sequence[str], width: int, options: argparse.Namespace
) -> Run:
    run = Run()
    todo = list(enumerate(texts))

    async def keep_going() -> None:
        while todo:
            number, text = todo.pop()
            await ask(server.port, f"stream-{number}", text, options, run)

    began, worked = time.perf_counter(), server.processor_seconds()
    async with trio.open_nursery() as nursery:
        for _ in range(width):
            nursery.start_soon(keep_going)
    run.seconds = time.perf_counter() - began
    run.worked = server.processor_seconds() - worked
    return run


def bare(folder: str, orders: Connection) -> None:
    """The bare loop's process: takes (texts, width, max_tokens), answers tokens and their seconds,
    by the clock and of the processor."""
    from engine import bare_loop
    from mlx_lm import load

    from headrace.actors.engine.blas import use_fast_blas

    blas = str(use_fast_blas())
    model, tokenizer = load(folder)[:2]
    orders.send(blas)
    while (order := orders.recv()) is not None:
        texts, width, max_tokens = order
        prompts = [
            tuple(
                tokenizer.apply_chat_template(
                    [{"role": "user", "content": text}], add_generation_prompt=True
                )
            )
            for text in texts
        ]
        began, worked = time.perf_counter(), time.process_time()
        bare_loop(model, prompts, width, max_tokens)
        seconds, worked = time.perf_counter() - began, time.process_time() - worked
        orders.send((len(prompts) * max_tokens, seconds, worked))


def compare(
    server: Served, orders: Connection, width: int, options: argparse.Namespace
) -> tuple[list[Run], list[Run]]:
    """The server's runs and the bare loop's, one of each a round."""

    def over_http(texts: Sequence[str]) -> Run:
        return trio.run(closed_loop, server, texts, width, options)

    def without(texts: Sequence[str]) -> Run:
        orders.send((texts, width, options.max_tokens))
        return Run(*orders.recv())

    sides = (over_http, without)
    runs: tuple[list[Run], list[Run]] = ([], [])
    for turn in range(options.rounds):
        count = max(2 * width, 4)
        texts = [prompt(options.prompt_tokens, 1000 * turn + n) for n in range(count)]
        for which in (turn % 2, 1 - turn % 2):
            runs[which].append(sides[which](texts))
    return runs


def report(width: int, runs: list[Run], bare: list[Run]) -> float:
    """Print a line; the server's median tokens per second."""
    rates = [[run.rate for run in side] for side in (runs, bare)]
    ratios = [ours.rate / theirs.rate for ours, theirs in zip(runs, bare, strict=True)]
    work = [ours.cost / theirs.cost for ours, theirs in zip(runs, bare, strict=True)]
    first = sorted(seconds for run in runs for seconds in run.first)
    gaps = sorted(seconds for run in runs for seconds in run.gaps)
    ours, bare_rate, ratio = map(statistics.median, (*rates, ratios))
    spread = f"({min(ratios):.3f}..{max(ratios):.3f})"
    print(
        f"{width:3} {ours:10.1f} {bare_rate:10.1f}   {ratio:.3f} {spread}"
        f" {statistics.median(work):.3f}"
        f" {statistics.median(first) * 1000:8.0f} {statistics.median(gaps) * 1000:7.1f}"
        f" {gaps[int(len(gaps) * 0.99)] * 1000:7.1f}",
        flush=True,
    )
    return ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", help="a folder; none: the default model")
    parser.add_argument("--widths", default="1,8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt-tokens", type=int, default=160)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--in-process", action="store_true", help="serve without a worker process")
    options = parser.parse_args()
    library = library_at(Settings().home, {})
    folder = options.model or str(library.resolve(DEFAULT_MODEL).path)
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=bare, args=(folder, theirs))
    process.start()
    print(f"model {Path(folder).name}, BLAS {ours.recv()}, {options.rounds} rounds")
    mode = ["--in-process"] if options.in_process else []
    with served(folder, *mode) as server:
        print("  B   HTTP t/s   bare t/s   ratio (worst..best)  work  first ms  gap ms  p99 ms")
        rates = [
            report(width, *compare(server, ours, width, options))
            for width in map(int, options.widths.split(","))
        ]
    print(f"the widest gives {rates[-1] / rates[0]:.2f} times the narrowest")
    ours.send(None)
    process.join()


if __name__ == "__main__":
    main()
