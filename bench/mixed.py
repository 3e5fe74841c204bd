#!/usr/bin/env python3
"""Rows that sample each in their own way against rows that are all greedy.

    python bench/mixed.py                                    about 3 minutes

The same prompts and numbers of tokens, so many at a time: once all greedy, once each with settings
of its own (temperature, top-p, top-k, min-p, penalties, bias) and half of them with a seed. Rounds
alternate and change who goes first; what counts is the median of their ratios.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import trio
from _second import default_folder
from _talk import Said, ask
from cancel import prompt
from served import Served, served, verdict

# Two names, and what belongs to the body of the request of each number.
Kinds: TypeAlias = Mapping[str, Callable[[int], dict[str, Any]]]

LEAST_RATIO = 0.95
SETTINGS: Sequence[dict[str, Any]] = (
    {"temperature": 0.7, "top_p": 0.9},
    {"temperature": 1.0, "top_k": 40},
    {"temperature": 1.2, "min_p": 0.05},
    {"temperature": 0.8, "presence_penalty": 0.5, "frequency_penalty": 0.3},
    {"temperature": 0.9, "repetition_penalty": 1.1},
    {"temperature": 0.6, "logit_bias": {"100": 2.0, "200": -100.0}},
    {"temperature": 0},
    {"temperature": 1.0},
)


def greedy(number: int) -> dict[str, Any]:
    return {"temperature": 0}


def mixed(number: int) -> dict[str, Any]:
    seed = {"seed": number} if number % 2 else {}
    return {**SETTINGS[number % len(SETTINGS)], **seed}


async def closed_loop(
    port: int, settings: Callable[[int], dict[str, Any]], turn: int, options: argparse.Namespace
) -> float:
    """Tokens per second."""
    numbers = list(range(2 * options.width))
    said: list[Said] = []

    async def keep_going() -> None:
        while numbers:
            number = numbers.pop()
            fields = {"max_tokens": options.max_tokens, "ignore_eos": True, **settings(number)}
            said.append(await ask(port, prompt(60, 1000 * turn + number), **fields))

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(options.width):
            nursery.start_soon(keep_going)
    seconds = time.perf_counter() - began
    return sum(int(one.usage["completion_tokens"]) for one in said) / seconds


def compared(server: Served, kinds: Kinds, options: argparse.Namespace) -> float:
    """The median over the rounds of the second kind's rate over that of the first."""
    (base, other), ratios = kinds, []
    for turn in range(options.rounds):
        rates = {
            # Prompts of their own for each, so that neither finds the other's.
            name: trio.run(closed_loop, server.port, kinds[name], 2 * turn + at, options)
            for at, name in enumerate(sorted(kinds, reverse=turn % 2 == 1))
        }
        ratios.append(rates[other] / rates[base])
        print(f"{base} {rates[base]:7.1f} t/s   {other} {rates[other]:7.1f} t/s", flush=True)
    print(
        f"{other} over {base}: {statistics.median(ratios):.3f} {min(ratios):.3f}..{max(ratios):.3f}"
    )
    return statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=64)
    options = parser.parse_args()
    with served(str(default_folder())) as server:
        ratio = compared(server, {"greedy": greedy, "mixed": mixed}, options)
    verdict({f"mixed settings reach {LEAST_RATIO} of greedy ones": ratio >= LEAST_RATIO})


if __name__ == "__main__":
    main()
