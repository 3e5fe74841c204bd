#!/usr/bin/env python3
"""A short chat that comes behind long prompts: its first token against that on an idle server.

    python bench/behind.py                                   about 2 minutes

In each round eight prompts of 2,000 tokens are sent at once, each of which takes many seconds by
itself, and a little later a short chat. The long ones are given up when it has its first token.
"""

from __future__ import annotations

import argparse
import statistics
import time
from functools import partial

import trio
from _second import default_folder
from _talk import ask
from cancel import prompt
from served import Served, served, verdict

MOST_DELAY = 3.0
SHORT_TOKENS = 60
# Seconds that the long ones have for being accepted and begun.
HEAD_START_SECONDS = 1.5


async def first_token(port: int, seed: int) -> float:
    said = await ask(port, prompt(SHORT_TOKENS, seed), max_tokens=2, ignore_eos=True)
    return said.first


async def behind(server: Served, options: argparse.Namespace, seed: int) -> float:
    async with trio.open_nursery() as nursery:
        for number in range(options.long):
            text = prompt(options.prompt_tokens, 100 * seed + number)
            nursery.start_soon(partial(ask, server.port, text, max_tokens=4))
        await trio.sleep(HEAD_START_SECONDS)
        if server.metric("headrace_requests_in_flight") < options.long:
            raise SystemExit("a long prompt was done before the short one came")
        first = await first_token(server.port, 50_000 + seed)
        nursery.cancel_scope.cancel()
    return first


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--long", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=2000)
    options = parser.parse_args()
    ratios = []
    print("idle ms   behind ms   times")
    with served(str(default_folder())) as server:
        for seed in range(options.rounds):
            idle = trio.run(first_token, server.port, seed)
            late = trio.run(behind, server, options, seed)
            while not server.idle():
                time.sleep(0.05)
            ratios.append(late / idle)
            print(f"{idle * 1000:7.0f} {late * 1000:11.0f} {ratios[-1]:7.2f}", flush=True)
    middle = statistics.median(ratios)
    print(f"median {middle:.2f} times ({min(ratios):.2f} to {max(ratios):.2f})")
    verdict({f"its first token takes at most {MOST_DELAY} times as long": middle <= MOST_DELAY})


if __name__ == "__main__":
    main()
