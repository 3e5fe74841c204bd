#!/usr/bin/env python3
"""What a batch costs the clients that wait for their answers.

    python bench/batches.py                                  less than 5 minutes
    python bench/batches.py --blocks 2 --lines 6 --asks 3    a look

In each block the official client uploads a file of requests, creates a batch, polls it and
downloads the answers. Interactive requests come one after the other, first beside nothing and then
beside the batch; blocks follow each other, so that what the machine does besides falls on both. No
block begins after `--seconds`. What counts is the time to the first token: the median of all asks
beside a batch may be half as much again as that of all beside nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from functools import partial
from typing import Any, Final

import attrs
import openai
import trio
from _second import default_folder
from _talk import Said, ask
from cancel import prompt
from served import Served, served, verdict

CHAT: Final = "/v1/chat/completions"
MOST_RATIO = 1.5
LOOK_SECONDS = 0.5


def file_of(turn: int, options: argparse.Namespace) -> bytes:
    lines = []
    for number in range(options.lines):
        messages = [
            {
                "role": "user",
                "content": prompt(options.line_tokens, 1_000_000 * (turn + 1) + number),
            }
        ]
        body = {"messages": messages, "max_tokens": options.line_max_tokens, "ignore_eos": True}
        line = {"custom_id": f"n{number}", "method": "POST", "url": CHAT, "body": body}
        lines.append(json.dumps(line))
    return "\n".join(lines).encode()


def created(client: openai.OpenAI, turn: int, options: argparse.Namespace) -> str:
    file = client.files.create(file=("lines.jsonl", file_of(turn, options)), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
    return batch.id


def downloaded(client: openai.OpenAI, batch: Any) -> list[dict[str, Any]]:
    text = client.files.content(batch.output_file_id).text
    return [json.loads(line) for line in text.splitlines()]


async def asks(port: int, turn: int, count: int, options: argparse.Namespace) -> list[Said]:
    """One after the other, with a short rest, as somebody who reads would send them."""
    said: list[Said] = []
    await keep_asking(port, turn, count, options, said)
    return said


async def keep_asking(
    port: int, turn: int, count: int, options: argparse.Namespace, said: list[Said]
) -> None:
    for number in range(count):
        text = prompt(options.ask_tokens, 10_000 * turn + number)
        said.append(await ask(port, text, max_tokens=options.ask_max_tokens, ignore_eos=True))
        await trio.sleep(options.rest)


async def beside_a_batch(
    server: Served, client: openai.OpenAI, turn: int, options: argparse.Namespace
) -> tuple[list[Said], Any, float]:
    """Interactive requests for as long as the batch runs, the batch, and its seconds."""
    said: list[Said] = []
    began = time.perf_counter()
    name = await trio.to_thread.run_sync(created, client, turn, options)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_asking, server.port, turn, 10_000, options, said)
        while True:
            batch = await trio.to_thread.run_sync(partial(client.batches.retrieve, name))
            if batch.status not in ("validating", "in_progress"):
                nursery.cancel_scope.cancel()
                break
            await trio.sleep(LOOK_SECONDS)
    return said, batch, time.perf_counter() - began


def shown(name: str, said: list[Said]) -> float:
    firsts = sorted(one.first * 1000 for one in said)
    median = statistics.median(firsts)
    late = firsts[int(0.9 * (len(firsts) - 1))]
    print(
        f"{name:18} first token {median:7.1f} ms, 90th percentile {late:7.1f} ms, {len(said)} asks"
    )
    return median


@attrs.define
class Found:
    """What the blocks brought so far."""

    idle: list[Said] = attrs.field(factory=list)
    beside: list[Said] = attrs.field(factory=list)
    lines: int = 0
    answers: int = 0
    seconds: float = 0.0


def block(
    server: Served, client: openai.OpenAI, number: int, options: argparse.Namespace, found: Found
) -> None:
    found.idle += trio.run(asks, server.port, 2 * number, options.asks, options)
    said, batch, seconds = trio.run(beside_a_batch, server, client, 2 * number + 1, options)
    found.beside += said
    found.seconds += seconds
    found.lines += options.lines
    found.answers += len(downloaded(client, batch))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--lines", type=int, default=25, help="of the batch of a block")
    parser.add_argument("--line-tokens", type=int, default=60)
    parser.add_argument("--line-max-tokens", type=int, default=32)
    parser.add_argument("--asks", type=int, default=6, help="of a block, beside nothing")
    parser.add_argument("--ask-tokens", type=int, default=120)
    parser.add_argument("--ask-max-tokens", type=int, default=32)
    parser.add_argument("--rest", type=float, default=0.2, help="seconds between two asks")
    options = parser.parse_args()
    found = Found()
    with served(str(default_folder())) as server:
        base_url = f"http://127.0.0.1:{server.port}/v1"
        with openai.OpenAI(base_url=base_url, api_key="any", max_retries=0) as client:
            trio.run(asks, server.port, 1_000, 2, options)
            began = time.perf_counter()
            for number in range(options.blocks):
                if time.perf_counter() - began < options.seconds:
                    block(server, client, number, options, found)
    idle, beside = shown("beside nothing", found.idle), shown("beside a batch", found.beside)
    print(f"batches: {found.answers} of {found.lines} lines in {found.seconds:.1f} s")
    print(f"first token beside a batch over idle: {beside / idle:.2f}")
    verdict(
        {
            "every line is answered": found.answers == found.lines,
            f"the first token takes {MOST_RATIO} times as long at most": beside
            <= MOST_RATIO * idle,
        }
    )


if __name__ == "__main__":
    main()
