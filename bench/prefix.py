#!/usr/bin/env python3
"""What kept prefixes save, and that they change no answer.

    python bench/prefix.py                                   about 6 minutes

Three loads on the default model: requests that share a long prefix and come at the same moment
(how many prompt tokens are computed, against each distinct one once), conversations of ten turns
(time to the first token of the tenth against the second), and many conversations that each hold a
secret number while only few can be kept (their answers with a small cache, and with none).
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import trio
from _second import default_folder
from _talk import Said, ask, together
from cancel import prompt
from served import Served, served, verdict

from headrace.actors.engine.tokens import TextTokenizer
from headrace.runtime.contracts import Message, Prompt

MOST_COMPUTED = 1.15
MOST_GROWTH = 1.5
SMALL_CACHE_BYTES = 48 << 20


def ideal_tokens(folder: Path, texts: Sequence[str]) -> int:
    """Prompt tokens if each distinct beginning were computed once. The last token of a prompt
    is computed by its first decode step."""
    tokenizer = TextTokenizer.read(folder, end_tokens=frozenset(), vocab_size=None)
    beginnings = set()
    for text in texts:
        tokens = tokenizer.build(Prompt(messages=(Message("user", text),)))
        beginnings |= {hash(tokens[: n + 1]) for n in range(len(tokens) - 1)}
    return len(beginnings)


def sharing(server: Served, folder: Path, options: argparse.Namespace) -> dict[str, bool]:
    ratios = []
    for turn in range(options.rounds):
        shared = prompt(options.prefix_tokens, 1000 + turn)
        texts = [f"{shared} {prompt(40, n)}" for n in range(options.requests)]
        before = server.metric("headrace_tokens_total", kind="prompt")
        asks = [partial(ask, server.port, text, max_tokens=4) for text in texts]
        trio.run(together, asks)
        computed = server.metric("headrace_tokens_total", kind="prompt") - before
        ideal = ideal_tokens(folder, texts)
        ratios.append(computed / ideal)
        print(f"{len(texts)} that share a prefix: {computed:.0f} computed, {ideal} is ideal")
    ratio = statistics.median(ratios)
    print(f"computed over ideal: {ratio:.3f} ({min(ratios):.3f}..{max(ratios):.3f})")
    return {f"at most {MOST_COMPUTED} of the ideal is computed": ratio <= MOST_COMPUTED}


async def conversation(port: int, seed: int, turns: int) -> list[Said]:
    messages: list[dict[str, str]] = []
    answers = []
    for turn in range(turns):
        messages.append({"role": "user", "content": prompt(80, 100 * seed + turn)})
        answers.append(await ask(port, messages, max_tokens=24, ignore_eos=True))
        messages.append({"role": "assistant", "content": answers[-1].text})
    return answers


def turns(server: Served, options: argparse.Namespace) -> dict[str, bool]:
    rows = [
        trio.run(conversation, server.port, seed, options.turns) for seed in range(options.rounds)
    ]
    firsts = [statistics.median(row[n].first for row in rows) for n in range(options.turns)]
    computed = [
        statistics.median(row[n].computed_tokens for row in rows) for n in range(len(firsts))
    ]
    print("turn        " + "".join(f"{n + 1:8}" for n in range(len(firsts))))
    print("first ms    " + "".join(f"{first * 1000:8.0f}" for first in firsts))
    print("computed    " + "".join(f"{count:8.0f}" for count in computed))
    growth = firsts[-1] / firsts[1]
    print(f"the last turn's first token takes {growth:.2f} times the second's")
    return {f"the last turn takes at most {MOST_GROWTH} times the second": growth <= MOST_GROWTH}


async def secret(port: int, number: int, limit: trio.CapacityLimiter) -> list[str]:
    """One conversation about a number that nobody else has."""
    draw = random.Random(number)
    value = draw.randrange(1000, 10000)
    messages = [{"role": "user", "content": f"Remember that my secret number is {value}."}]
    said = []
    for question in ("What is my secret number?", "Add one to my secret number.", "Repeat it."):
        await trio.sleep(draw.random() / 10)
        async with limit:
            answer = await ask(port, messages, max_tokens=16)
        said.append(answer.text)
        messages += [
            {"role": "assistant", "content": answer.text},
            {"role": "user", "content": question},
        ]
    return said


async def secrets(port: int, options: argparse.Namespace) -> list[list[str]]:
    limit = trio.CapacityLimiter(options.at_once)
    asks = [partial(secret, port, number, limit) for number in range(options.conversations)]
    return await together(asks)


def compared(folder: Path, options: argparse.Namespace) -> dict[str, bool]:
    said = {}
    for name, nbytes in (("small", SMALL_CACHE_BYTES), ("none", 0)):
        with served(str(folder), "--prompt-cache-bytes", str(nbytes)) as server:
            said[name] = trio.run(secrets, server.port, options)
            cache = next(iter(server.get_json("/stats")["prompt_cache"].values()))
            print(f"cache {name}: {cache['hits']} hits, {cache['evictions']} evictions")
            if name == "small":
                evictions, hits = cache["evictions"], cache["hits"]
    pairs = zip(said["small"], said["none"], strict=True)
    same = sum(one == other for one, other in pairs)
    print(f"{same} of {len(said['none'])} conversations say the same with and without")
    return {
        "every conversation says the same with and without a cache": same == len(said["none"]),
        "the small cache was used and too small": evictions > 0 and hits > 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--prefix-tokens", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--conversations", type=int, default=40)
    parser.add_argument("--at-once", type=int, default=8)
    options = parser.parse_args()
    folder = default_folder()
    with served(str(folder)) as server:
        claims = sharing(server, folder, options) | turns(server, options)
    verdict(claims | compared(folder, options))


if __name__ == "__main__":
    main()
