#!/usr/bin/env python3
"""A long prompt that arrives among streams: what they notice of it, and what it pays for them.

    python bench/gap.py                                      about 5 minutes

Four streams run on the default model when a prompt of 2,000 tokens comes. The longest wait of a
stream between two pieces while that prompt is computed is set against their median wait without
it, and the prompt's own first token against what it takes alone. Each round has a prompt of its
own, so that nothing of it is known. Then such a prompt is given up in the middle, and the time
until its row is gone is set against the longest chunk.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio
from _second import default_folder
from _talk import Said, ask
from cancel import prompt
from served import Served, served, verdict

MOST_GAPS = 6.0
MOST_DELAY = 1.3
# Besides one chunk, a cancel may take so long to be seen and told, in seconds.
MARGIN_SECONDS = 0.1
# Pieces of each stream before the prompt comes.
CALM = 16
# For the first piece of an answer: a first token may show nothing, or be its end.
FEW: dict[str, Any] = {"max_tokens": 3, "ignore_eos": True}


@attrs.define
class Round:
    """Seconds: the streams' median wait before the prompt, the longest during it, its first token
    among them and alone."""

    median: float
    worst: float
    among: float
    alone: float

    @property
    def gaps(self) -> float:
        return self.worst / self.median

    @property
    def delay(self) -> float:
        return self.among / self.alone


async def streaming(
    port: int, count: int, act: Callable[[], Awaitable[None]], seed: int, max_tokens: int = 2000
) -> list[Said]:
    """Streams that run while `act` does; they hang up when it is done."""
    over = False
    streams: dict[int, Said] = {}
    in_step = trio.Event()

    async def one(number: int) -> None:
        def note(said: Said) -> bool:
            streams[number] = said
            if len(streams) == count and all(len(s.times) >= CALM for s in streams.values()):
                in_step.set()
            return over

        text = prompt(60, 10_000 * seed + number)
        await ask(port, text, on_piece=note, max_tokens=max_tokens, ignore_eos=True)

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(one, number)
        await in_step.wait()
        await act()
        over = True
    return list(streams.values())


async def measured(port: int, options: argparse.Namespace, seed: int) -> Round:
    alone = await ask(port, prompt(options.prompt_tokens, 2 * seed), **FEW)
    text = prompt(options.prompt_tokens, 2 * seed + 1)
    long: list[Said] = []

    async def act() -> None:
        long.append(await ask(port, text, **FEW))

    streams = await streaming(port, options.streams, act, seed)
    came, began = long[0].began, long[0].began + long[0].first
    # The last waits before it: by then no other stream was beginning.
    before = [gap for said in streams for at, gap in ends(said) if at < came][-4 * CALM :]
    during = [gap for said in streams for at, gap in ends(said) if at > came and at - gap < began]
    return Round(statistics.median(before), max(during), long[0].first, alone.first)


def ends(said: Said) -> list[tuple[float, float]]:
    """When each wait ended, on the common clock, and how long it was."""
    return [(said.began + at, gap) for at, gap in zip(said.times[1:], said.gaps, strict=True)]


async def given_up(server: Served, options: argparse.Namespace, seed: int) -> float:
    """Seconds from hanging up in the middle of a prompt until its row is gone."""
    before = server.metric("headrace_cancel_seconds_sum")

    async def act() -> None:
        with trio.move_on_after(options.cancel_after_seconds):
            await ask(server.port, prompt(options.prompt_tokens, seed), max_tokens=1)
            raise SystemExit("the prompt was computed before it could be given up")
        for _ in range(200):
            await trio.sleep(0.05)
            if (now := server.metric("headrace_cancel_seconds_sum")) > before:
                freed.append(now - before)
                return
        raise SystemExit("the prompt was given up and its row stayed")

    freed: list[float] = []
    await streaming(server.port, options.streams, act, seed)
    return freed[0]


def longest_chunk(server: Served) -> float:
    """Seconds of the longest prefill step among the recent ones."""
    steps = server.get_json("/debug/trace?limit=4096")["data"]
    chunks = [
        e["fields"] for e in steps if e["name"] == "step" and e["fields"]["kind"] == "prefill"
    ]
    return max(float(chunk["seconds"]) for chunk in chunks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--prompt-tokens", type=int, default=2000)
    parser.add_argument("--cancel-after-seconds", type=float, default=2.0)
    options = parser.parse_args()
    with served(str(default_folder()), "--debug-trace") as server:
        print("gap ms   worst ms   times   first ms   alone ms   times")
        rounds = []
        for seed in range(options.rounds):
            rounds.append(row := trio.run(measured, server.port, options, seed))
            print(
                f"{row.median * 1000:6.0f} {row.worst * 1000:10.0f} {row.gaps:7.1f}"
                f" {row.among * 1000:10.0f} {row.alone * 1000:10.0f} {row.delay:7.2f}",
                flush=True,
            )
        freed = [trio.run(given_up, server, options, 5000 + seed) for seed in range(options.rounds)]
        chunk = longest_chunk(server)
    gaps = statistics.median(row.gaps for row in rounds)
    delay = statistics.median(row.delay for row in rounds)
    print(f"a cancel takes {max(freed) * 1000:.0f} ms at worst, a chunk {chunk * 1000:.0f} ms")
    print(f"medians: {gaps:.1f} times the usual gap, {delay:.2f} times the first token alone")
    verdict(
        {
            f"no stream waits more than {MOST_GAPS} times as long as usual": gaps <= MOST_GAPS,
            f"the prompt takes at most {MOST_DELAY} times what it takes alone": delay <= MOST_DELAY,
            "a cancel takes no longer than a chunk": max(freed) <= chunk + MARGIN_SECONDS,
        }
    )


if __name__ == "__main__":
    main()
