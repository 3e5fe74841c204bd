#!/usr/bin/env python3
"""What a batch costs the clients that wait for their answers.

    python bench/batches.py                                  about 3 minutes
    python bench/batches.py --lines 10 --asks 6              a look

The official client uploads a file of requests, creates a batch, polls it and downloads the answers.
Interactive requests come one after the other, first beside nothing and then beside the batch. What
counts is their time to the first token: beside the batch its median may be half as much again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from functools import partial
from typing import Any, Final

import openai
import trio
from _second import default_folder
from _talk import Said, ask
from cancel import prompt
from served import Served, served, verdict

CHAT: Final = "/v1/chat/completions"
MOST_RATIO = 1.5
LOOK_SECONDS = 0.5


def file_of(options: argparse.Namespace) -> bytes:
    lines = []
    for number in range(options.lines):
        messages = [{"role": "user", "content": prompt(options.line_tokens, 5000 + number)}]
        body = {"messages": messages, "max_tokens": options.line_max_tokens, "ignore_eos": True}
        line = {"custom_id": f"n{number}", "method": "POST", "url": CHAT, "body": body}
        lines.append(json.dumps(line))
    return "\n".join(lines).encode()


def created(client: openai.OpenAI, options: argparse.Namespace) -> str:
    file = client.files.create(file=("lines.jsonl", file_of(options)), purpose="batch")
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
        text = prompt(options.ask_tokens, 100_000 * turn + number)
        said.append(await ask(port, text, max_tokens=options.ask_max_tokens, ignore_eos=True))
        await trio.sleep(options.rest)


async def beside_a_batch(
    server: Served, client: openai.OpenAI, options: argparse.Namespace
) -> tuple[list[Said], Any, float]:
    """Interactive requests for as long as the batch runs, the batch, and its seconds."""
    said: list[Said] = []
    began = time.perf_counter()
    name = await trio.to_thread.run_sync(created, client, options)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_asking, server.port, 2, 100_000, options, said)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--line-tokens", type=int, default=60)
    parser.add_argument("--line-max-tokens", type=int, default=32)
    parser.add_argument("--asks", type=int, default=20)
    parser.add_argument("--ask-tokens", type=int, default=120)
    parser.add_argument("--ask-max-tokens", type=int, default=32)
    parser.add_argument("--rest", type=float, default=0.2, help="seconds between two asks")
    options = parser.parse_args()
    with served(str(default_folder())) as server:
        base_url = f"http://127.0.0.1:{server.port}/v1"
        with openai.OpenAI(base_url=base_url, api_key="any", max_retries=0) as client:
            trio.run(asks, server.port, 0, 2, options)
            idle = shown("beside nothing", trio.run(asks, server.port, 1, options.asks, options))
            said, batch, seconds = trio.run(beside_a_batch, server, client, options)
            beside = shown("beside a batch", said)
            answers = downloaded(client, batch)
    counts = batch.request_counts
    print(f"batch: {counts.completed} of {counts.total} lines in {seconds:.1f} s")
    print(f"first token beside the batch over idle: {beside / idle:.2f}")
    verdict(
        {
            "every line is answered": len(answers) == counts.total == options.lines,
            f"the first token takes {MOST_RATIO} times as long at most": beside
            <= MOST_RATIO * idle,
        }
    )


if __name__ == "__main__":
    main()
