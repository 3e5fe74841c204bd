#!/usr/bin/env python3
"""The gaps in one model's stream while another model loads, beside the gaps while none does.

    python bench/load_gap.py [SECOND] --rounds 5        about a minute

The stream is on the default model. The second is a folder or a name that the library knows, or
without one a small random model that is made for the run. A round is a quiet period, then a load.
A load keeps a core or more busy, so a machine with few cores shows it in the median, which may
double where both want the same cores. What must not show is the load itself: no gap may be half
as long as a load, beyond the worst of the quiet gaps.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from _second import default_folder, folder_of, second_folder
from served import Served, chat, served, verdict

SETTLE_SECONDS = 1.0
MOST_GROWTH = 2.0
PROMPT = "List the numbers from 1 to 300, each on its own line."


@attrs.define
class Stream:
    """Reads streams of the default model one after the other, and notes when each text came."""

    server: Served
    came: list[float] = attrs.field(factory=list)
    # Where one stream ends and the next begins there is no gap between texts.
    breaks: set[int] = attrs.field(factory=set)
    over: bool = False

    def run(self) -> None:
        number = 0
        while not self.over:
            number += 1
            self.breaks.add(len(self.came))
            self.read_one(f"gap-{number}")

    def read_one(self, name: str) -> None:
        fields: dict[str, Any] = {"max_tokens": 2000, "ignore_eos": True, "stream": True}
        seen = b""
        with self.server.connect() as client:
            client.sendall(chat(PROMPT, name, **fields))
            while b"[DONE]" not in seen and not self.over:
                data = client.recv(65536)
                if not data or b'"error"' in data:
                    raise SystemExit(f"the stream broke off: {data[-300:]!r}")
                self.came += [time.perf_counter()] * data.count(b'"content":"')
                seen = seen[-16:] + data

    def gaps(self, since: float, until: float) -> list[float]:
        ends = enumerate(zip(self.came, self.came[1:], strict=False), start=1)
        return [
            after - before
            for at, (before, after) in ends
            if at not in self.breaks and after >= since and before <= until and after > before
        ]


def order(server: Served, model: str, what: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    connection.request("POST", f"/admin/models/{model}/{what}")
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"{what} of {model}: {body}")


def told(name: str, gaps: Sequence[float]) -> str:
    if not gaps:
        return f"{name:24} no texts"
    ordered = sorted(gaps)
    median, late = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    figures = " ".join(f"{seconds * 1000:9.1f}" for seconds in (median, late, ordered[-1]))
    return f"{name:24} {figures}   {len(ordered)} texts"


def measure(server: Served, model: str, options: argparse.Namespace) -> dict[str, bool]:
    # Named at the start, so it was loaded at the start.
    order(server, model, "unload")
    stream = Stream(server)
    reader = threading.Thread(target=stream.run)
    reader.start()
    quiet: list[float] = []
    loading: list[float] = []
    seconds: list[float] = []
    try:
        for _ in range(options.rounds):
            time.sleep(SETTLE_SECONDS)
            began = time.perf_counter()
            time.sleep(options.quiet_seconds)
            quiet += stream.gaps(began, time.perf_counter())
            began = time.perf_counter()
            order(server, model, "load")
            ended = time.perf_counter()
            # The gap that the load's end falls into is to be seen as well.
            time.sleep(SETTLE_SECONDS)
            loading += stream.gaps(began, ended)
            seconds.append(ended - began)
            order(server, model, "unload")
    finally:
        stream.over = True
        reader.join()
    print(f"{options.rounds} loads of {min(seconds):.2f} to {max(seconds):.2f} s")
    print(f"{'gaps in ms':24} {'median':>9} {'p99':>9} {'worst':>9}")
    print(told("while nothing loads", quiet))
    print(told("while the second loads", loading))
    if not quiet or not loading:
        return {"the stream went on": False}
    grown = statistics.median(loading) / statistics.median(quiet)
    print(f"the median is {grown:.2f} times as long while the second loads")
    return {
        "the stream went on while the second loaded": len(loading) > options.rounds,
        "the median gap at most doubles": grown <= MOST_GROWTH,
        "no gap shows the load": max(loading) <= max(max(quiet), min(seconds) / 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("second", nargs="?", help="a folder, or a model that the library knows")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quiet-seconds", type=float, default=5.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as parent:
        first = default_folder()
        named = options.second
        second = folder_of(named) if named else second_folder(first, Path(parent))
        with served(str(first), "--models", str(second), "--log-level", "error") as server:
            rows = server.get_json("/v1/models")["data"]
            model = next(row["id"] for row in rows if second.name in row["id"])
            print(f"stream on the default model, loads of {model}, {os.cpu_count()} cores")
            held = measure(server, model, options)
        verdict(held)


if __name__ == "__main__":
    main()
