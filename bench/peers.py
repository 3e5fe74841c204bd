#!/usr/bin/env python3
"""headrace beside other servers for MLX models: the same load, one server at a time.

    python bench/peers.py                                    about 10 minutes a server
    python bench/peers.py --small                            a minute each: a server's cost shows

The default model, or a random one of two layers, the same prompts and numbers of tokens, so many
requests at a time. Servers take turns in each round and are idle while another works. Compared are
those that are on this machine: `mlx_lm.server`, which comes with mlx-lm, and vllm-mlx and rapid-mlx
where their commands are on the path. They need the same BLAS: mlx-lm gets ours, the others what
`--preload` names (a library with plain cblas names, such as libopenblas).
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio
from _second import default_folder, second_folder
from _talk import Said, ask
from cancel import prompt
from served import free_port, verdict

from headrace.runtime.testing.serving import MISLEADING, START_SECONDS, stop

# mlx-lm's server with the BLAS that ours has.
MLX_LM = (
    "from headrace.actors.engine.blas import use_fast_blas; use_fast_blas();"
    "from mlx_lm.server import main; main()"
)


@attrs.frozen
class Peer:
    """A server that can be started: its command, and the name that its model goes by."""

    name: str
    command: tuple[str, ...]
    # None: the first that it lists.
    model: str | None = None


@attrs.define
class Tally:
    """What one server showed at one width, over all rounds. Times in seconds."""

    rates: list[float] = attrs.field(factory=list)
    firsts: list[float] = attrs.field(factory=list)
    gaps: list[float] = attrs.field(factory=list)

    def line(self, name: str, width: int, rate: float) -> str:
        times = (at(self.firsts, 0.5), at(self.firsts, 0.99), at(self.gaps, 0.99))
        shown = "".join(f"{seconds * 1000:10.0f}" for seconds in times)
        return f"{name:10} {width:3} {statistics.median(self.rates):9.1f} {rate:8.2f} {shown}"


def at(seconds: Sequence[float], share: float) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def peers(folder: Path) -> list[Peer]:
    python, model = sys.executable, str(folder)
    found = [
        Peer("headrace", (python, "-m", "headrace.http", "serve", model)),
        Peer("mlx-lm", (python, "-c", MLX_LM, "--model", model), "default_model"),
    ]
    if command := shutil.which("vllm-mlx"):
        options = ("--continuous-batching", "--offline", "--chunked-prefill-tokens", "256")
        found.append(Peer("vllm-mlx", (command, "serve", model, *options)))
    if command := shutil.which("rapid-mlx"):
        found.append(Peer("rapid-mlx", (command, "serve", model)))
    return found


@contextlib.contextmanager
def running(peer: Peer, preload: str | None) -> Iterator[tuple[int, str]]:
    """The port of a server that answers, and its model's name; stopped on the way out."""
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if name not in MISLEADING}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    if preload and peer.command[0] != sys.executable:
        environment["LD_PRELOAD"] = preload
    process = subprocess.Popen(
        [*peer.command, "--host", "127.0.0.1", "--port", str(port)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield port, ready(peer, port, process)
    finally:
        stop(process)


def ready(peer: Peer, port: int, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException, LookupError, ValueError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
            model = peer.model or listed(connection)
            body = {
                "model": model,
                "max_tokens": 1,
                "messages": [{"role": "user", "content": "hi"}],
            }
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
            if connection.getresponse().status == 200:
                return model
        time.sleep(0.5)
    raise SystemExit(f"{peer.name} did not start")


def listed(connection: http.client.HTTPConnection) -> str:
    connection.request("GET", "/v1/models")
    return str(json.loads(connection.getresponse().read())["data"][0]["id"])


async def closed_loop(
    port: int, model: str, width: int, turn: int, options: argparse.Namespace
) -> tuple[float, list[Said]]:
    # So many that for most of a round all places are taken.
    numbers = list(range(max(4, 3 * width)))
    said: list[Said] = []
    fields: dict[str, Any] = {"model": model, "max_tokens": options.max_tokens, "ignore_eos": True}

    async def keep_going() -> None:
        while numbers:
            number = numbers.pop()
            text = prompt(options.prompt_tokens, 10_000 * turn + 100 * width + number)
            seed = {"seed": number} if options.seeded and number % 2 else {}
            said.append(await ask(port, text, **(fields | seed)))

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(width):
            nursery.start_soon(keep_going)
    return time.perf_counter() - began, said


def measure(
    started: dict[str, tuple[int, str]], width: int, options: argparse.Namespace
) -> dict[str, Tally]:
    tallies = {name: Tally() for name in started}
    for turn in range(options.rounds):
        order = list(started) if turn % 2 == 0 else list(started)[::-1]
        for name in order:
            port, model = started[name]
            seconds, said = trio.run(closed_loop, port, model, width, turn, options)
            tokens = sum(int(one.usage["completion_tokens"]) for one in said)
            tallies[name].rates.append(tokens / seconds)
            tallies[name].firsts += [one.first for one in said if one.times]
            tallies[name].gaps += [gap for one in said for gap in one.gaps]
    return tallies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--widths", default="1,4,8,16")
    parser.add_argument("--prompt-tokens", type=int, default=160)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--seeded", action="store_true", help="give half of the requests a seed")
    parser.add_argument("--small", action="store_true", help="a random model of two layers")
    parser.add_argument(
        "--preload", help="a BLAS library for servers with an environment of theirs"
    )
    options = parser.parse_args()
    claims = {}
    with contextlib.ExitStack() as stack:
        parent = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
        folder = second_folder(default_folder(), parent) if options.small else default_folder()
        started = {
            peer.name: stack.enter_context(running(peer, options.preload)) for peer in peers(folder)
        }
        print("server       B       t/s    ours/   first p50  p99 ms   gap p99")
        for width in map(int, options.widths.split(",")):
            tallies = measure(started, width, options)
            ours = tallies["headrace"].rates
            for name, tally in tallies.items():
                pairs = zip(ours, tally.rates, strict=True)
                ratio = statistics.median(one / other for one, other in pairs)
                print(tally.line(name, width, ratio), flush=True)
                claims[f"as fast as {name} at {width}"] = ratio >= 0.97
    verdict(claims)


if __name__ == "__main__":
    main()
