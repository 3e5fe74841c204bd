#!/usr/bin/env python3
"""How long a row outlives its client, phase by phase, on the real model over real sockets.

    python bench/cancel.py [MODEL] --rounds 50

For each phase: milliseconds from the end of the client's socket to the moment at which the server
has nothing left of the request (no row, no KV, no lease, no place), median and worst, beside the
length of the steps that ran meanwhile. The moment is found by asking the server again and again,
which takes 1 to 3 ms.
"""

from __future__ import annotations

import argparse
import itertools
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import attrs
from served import Served, chat, median_and_worst, served

# One token each, so that a prompt's length can be chosen.
WORDS = ("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world")
LONG_PROMPT_TOKENS = 4000
End = Callable[[socket.socket], None]


@attrs.frozen
class Phase:
    """`ready` is the stage in which the client leaves; `others` fill the rows before it."""

    name: str
    stage: str
    end: End
    prompt_tokens: int = 20
    stream: bool = True
    version: str = "1.1"
    others: int = 0
    # A frame that has to be seen first.
    until: bytes = b""
    # For how long its client has read nothing when it leaves.
    silent_seconds: float = 0.0


def close(client: socket.socket) -> None:
    client.close()


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def half_close(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


PHASES = (
    Phase("queued", "queued", close, others=1),
    Phase("queued, keep-alives sent", "queued", close, others=1, until=b": keep-alive"),
    Phase("prefill of 4000 tokens", "prefilling", close, LONG_PROMPT_TOKENS),
    Phase("decode", "decoding", close, until=b'"content":"'),
    Phase("decode, TCP reset", "decoding", reset, until=b'"content":"'),
    Phase("decode, half-close", "decoding", half_close, until=b'"content":"'),
    Phase("decode, HTTP/1.0", "decoding", close, version="1.0", until=b'"content":"'),
    Phase("decode, no stream", "decoding", close, stream=False),
    Phase("decode, reader stalled", "decoding", close, until=b'"content":"', silent_seconds=1.0),
)


def prompt(tokens: int, seed: int) -> str:
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(max(1, tokens - 20)))


@contextmanager
def asking(server: Served, phase: Phase, name: str, seed: int) -> Iterator[socket.socket]:
    client = server.connect()
    try:
        text = prompt(phase.prompt_tokens, seed)
        fields = {"max_tokens": 4000, "ignore_eos": True, "stream": phase.stream}
        client.sendall(chat(text, name, version=phase.version, **fields))
        seen = b""
        while phase.until and phase.until not in seen:
            seen = seen[-64:] + client.recv(65536)
        yield client
    finally:
        client.close()


def stage_of(server: Served, name: str) -> str | None:
    live = server.get_json("/v1/requests")["data"]
    return next((request["state"] for request in live if request["id"] == name), None)


def wait_for(server: Served, name: str, stage: str | None) -> float:
    while stage_of(server, name) != stage:
        pass
    return time.perf_counter()


def one(server: Served, phase: Phase, number: int) -> float:
    """Seconds from the end of the socket to nothing left."""
    name = f"{phase.stage}-{number}"
    with asking(server, phase, name, number) as client:
        wait_for(server, name, phase.stage)
        if phase.stage == "prefilling":
            time.sleep(random.Random(number).random())
        time.sleep(phase.silent_seconds)
        ended = time.perf_counter()
        phase.end(client)
        return wait_for(server, name, None) - ended


def steps(server: Served) -> dict[str, list[float]]:
    """Seconds of the last steps by kind, as the server's own trace has them."""
    found: dict[str, list[float]] = {"prefill": [], "decode": []}
    for event in server.get_json("/debug/trace?limit=4000")["data"]:
        if event["name"] == "step":
            found[event["fields"]["kind"]].append(event["fields"]["seconds"])
    return found


def measure(server: Served, phase: Phase, rounds: int, numbers: Iterator[int]) -> list[float]:
    filler = Phase("filler", "decoding", close, until=b'"content":"')
    with ExitStack() as rows:
        for _ in range(phase.others):
            rows.enter_context(asking(server, filler, f"filler-{next(numbers)}", 0))
        return [one(server, phase, next(numbers)) for _ in range(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--phase", default="", help="only phases whose name has this in it")
    options = parser.parse_args()
    numbers = itertools.count()
    arguments = ("--max-rows", "1", "--keepalive-s", "0.2", "--debug-trace", "--log-level", "error")
    with served(options.model, *arguments) as server:
        print(f"{'phase':28} median ms worst ms  (of {options.rounds}); steps meanwhile")
        for phase in (phase for phase in PHASES if options.phase in phase.name):
            seconds = measure(server, phase, options.rounds, numbers)
            kind = "prefill" if phase.stage == "prefilling" else "decode"
            lengths = steps(server)[kind]
            beside = median_and_worst(lengths) if lengths else "none"
            print(f"{phase.name:28} {median_and_worst(seconds)}  {kind} {beside}", flush=True)


if __name__ == "__main__":
    main()
