#!/usr/bin/env python3
"""Whether a seed gives the same text again: alone, in company, and after a neighbour has left.

    python bench/seeds.py                                    about 4 minutes

Each of so many seeded requests runs alone, once more alone, beside seven others, and beside one
that hangs up in the middle. The server runs without kept prefixes, so that every text is
computed from its beginning. A text that differs is shown with the place where it parts.
"""

from __future__ import annotations

import argparse

import trio
from _second import default_folder
from _talk import Said, ask
from cancel import prompt
from served import served, verdict

CLAIM = "every seeded text repeats {}"


async def seeded(port: int, number: int, options: argparse.Namespace) -> str:
    fields = {"seed": 1000 + number, "temperature": 1.0, "max_tokens": options.max_tokens}
    return (await ask(port, prompt(40, number), **fields)).text


async def alone(port: int, options: argparse.Namespace) -> list[str]:
    return [await seeded(port, number, options) for number in range(options.requests)]


async def in_company(port: int, options: argparse.Namespace) -> list[str]:
    """All of them, with so many others at a time; each batch is another mix of lengths."""
    said = [""] * options.requests
    limit = trio.CapacityLimiter(8)

    async def one(number: int) -> None:
        async with limit:
            said[number] = await seeded(port, number, options)

    async with trio.open_nursery() as nursery:
        for number in range(options.requests):
            nursery.start_soon(one, number)
    return said


async def beside_a_leaver(port: int, options: argparse.Namespace) -> list[str]:
    """Each beside another that hangs up after a few pieces."""
    said = []
    for number in range(options.requests):

        def leaves(other: Said) -> bool:
            return len(other.times) >= 5

        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                lambda: ask(port, prompt(90, 7), on_piece=leaves, seed=1, max_tokens=500)
            )
            said.append(await seeded(port, number, options))
    return said


def share(first: list[str], again: list[str], how: str) -> float:
    same = sum(one == other for one, other in zip(first, again, strict=True))
    print(f"{how:28} {same} of {len(first)} the same", flush=True)
    for number, (one, other) in enumerate(zip(first, again, strict=True)):
        if one != other:
            at = sum(1 for n in range(len(one)) if one[: n + 1] == other[: n + 1])
            print(f"   {number}: parts at {at}: {one[at : at + 30]!r} or {other[at : at + 30]!r}")
    return same / len(first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=40)
    options = parser.parse_args()
    with served(str(default_folder()), "--prompt-cache-bytes", "0") as server:
        first = trio.run(alone, server.port, options)
        if len(set(first)) < len(first):
            raise SystemExit("different seeds gave the same text")
        ways = {
            "alone": alone,
            "beside 7 others": in_company,
            "beside one that leaves": beside_a_leaver,
        }
        shares = {
            how: share(first, trio.run(way, server.port, options), how) for how, way in ways.items()
        }
    verdict({CLAIM.format(how): found == 1.0 for how, found in shares.items()})


if __name__ == "__main__":
    main()
