#!/usr/bin/env python3
"""The memory ledger under load: what is predicted, what is measured, and what is left at the end.

    python bench/ledger.py                                   300 requests, about 8 minutes
    python bench/ledger.py --small --requests 2000           about a quarter of an hour

Requests of mixed length and endings (length, stop, end of text) on the default model, or a small
random one with its words, behind a ceiling that holds a few rows; 30 % are hung up on at a random
time. The ledger is read all the time: weights, reserved caches and kept prefixes are what is
predicted, MLX's count of active bytes is what is measured. Ends with ok, or with exit code 1 where
the two were ever further apart than --bound of the measured bytes, where more was measured than
what is reserved together with what a step takes for a while, where anything is reserved in the
end, where a request got another answer than 200 or a clear refusal, or where resident memory grew
over the last half.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import attrs
from _second import default_folder, second_folder
from served import Served, served, verdict

CLEAR = {200, 400, 429, 503}
LOOK_SECONDS = 0.25
# The ledger hears of memory once a second, and of rows at once.
SETTLE_SECONDS = 3.0
# Resident memory may breathe by so much of itself over the last half.
RSS_SHARE = 0.03
# MLX's thread may keep what a step leaves, such as its logits, for a moment after its rows.
MOST_OVER = 0.02
# Behind these ceilings some rows have to wait. Rows are given memory for 64 tokens at a time, and
# their logits may still be there, which is more of a small model's bytes.
CEILING_MB, BOUND = 700, 0.05
SMALL_CEILING_MB, SMALL_BOUND = 190, 0.1


@attrs.define
class Looks:
    """What was seen of the server while it worked."""

    apart: list[float] = attrs.field(factory=list)
    # Of what is reserved, in all that was measured.
    most_share: float = 0.0
    most_bytes: int = 0
    negative: bool = False
    rss: list[tuple[float, int]] = attrs.field(factory=list)

    def look(self, server: Served, pid: int) -> None:
        ledger = server.get_json("/stats")["ledger"]
        numbers = [value for value in ledger.values() if value is not None]
        self.negative = self.negative or min(numbers) < 0
        self.most_bytes = max(self.most_bytes, ledger["measured_bytes"])
        self.rss.append((time.monotonic(), resident_bytes(pid)))

    def compare(self, server: Served) -> None:
        """Predictions beside measurements, as the trace kept them."""
        for event in server.get_json("/debug/trace?limit=4000")["data"]:
            if event["name"] == "ledger.measured":
                fields = event["fields"]
                measured, predicted = fields["measured_bytes"], fields["predicted_bytes"]
                self.apart.append((predicted - measured) / measured)
                reserved = predicted + fields["transient_bytes"]
                self.most_share = max(self.most_share, measured / reserved)


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


def body(draw: random.Random) -> dict[str, object]:
    words = " ".join(f"word{draw.randrange(1000)}" for _ in range(draw.choice((3, 20, 80, 250))))
    fields: dict[str, object] = {
        "messages": [{"role": "user", "content": f"Say something about {words}."}],
        "max_tokens": draw.choice((1, 8, 24, 60)),
        "stream": draw.random() < 0.5,
        "seed": draw.randrange(1 << 30),
    }
    if draw.random() < 0.2:
        fields["stop"] = ["e", "."]
    return fields


def ask(port: int, fields: dict[str, object], hang_up_after: float | None) -> str:
    """The status, or how the call ended."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=hang_up_after or 600)
    try:
        payload = json.dumps(fields)
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", payload, headers)
        answer = connection.getresponse()
        answer.read()
        return str(answer.status)
    except TimeoutError:
        return "hung up"
    finally:
        connection.close()


def client(port: int, numbers: list[int], tally: Counter[str]) -> None:
    while numbers:
        draw = random.Random(numbers.pop())
        leaves = draw.random() < 0.3
        tally[ask(port, body(draw), draw.uniform(0.05, 4.0) if leaves else None)] += 1


def measure(server: Served, options: argparse.Namespace) -> dict[str, bool]:
    worker = server.get_json("/engine")["workers"][0]["pid"]
    numbers, tally, looks = list(range(options.requests)), Counter[str](), Looks()
    arguments = (server.port, numbers, tally)
    threads = [threading.Thread(target=client, args=arguments) for _ in range(options.clients)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        looks.look(server, worker)
        looks.compare(server)
        time.sleep(LOOK_SECONDS)
    seconds = time.monotonic() - began
    time.sleep(SETTLE_SECONDS)
    return report(server, options, looks, tally, seconds)


def report(
    server: Served,
    options: argparse.Namespace,
    looks: Looks,
    tally: Counter[str],
    seconds: float,
) -> dict[str, bool]:
    end = server.get_json("/stats")["ledger"]
    half = looks.rss[len(looks.rss) // 2 :]
    third = max(1, len(half) // 3)
    first = statistics.median(size for _, size in half[:third])
    last = statistics.median(size for _, size in half[-third:])
    ceiling = options.ceiling_mb * 10**6
    print(f"{options.requests} requests in {seconds:.0f} s: {dict(tally)}")
    print(f"predicted minus measured: {min(looks.apart):+.2%} to {max(looks.apart):+.2%}")
    print(f"at most {looks.most_share:.1%} of what is reserved was measured")
    print(f"most measured {looks.most_bytes / 1e6:.1f} MB of {ceiling / 1e6:.0f} MB")
    print(f"resident memory, last half: {first / 1e6:.0f} MB to {last / 1e6:.0f} MB")
    print(f"suspended rows: {len(suspensions(server))} in the trace's last events")
    left = {name: end[name] for name in ("kv_bytes", "kv_reserved_bytes", "prefill_bytes")}
    print(f"at the end: {left}")
    clear = {str(status) for status in CLEAR} | {"hung up"}
    return {
        "nothing is left at the end": not any(left.values()),
        "no account is ever negative": not looks.negative,
        "predicted is near measured": max(map(abs, looks.apart)) <= options.bound,
        "what is measured stays below what is reserved": looks.most_share <= 1 + MOST_OVER,
        "what is measured stays below the ceiling": looks.most_bytes <= ceiling,
        "resident memory is flat": last <= first * (1 + RSS_SHARE),
        "every call has a clear end": set(tally) <= clear,
    }


def suspensions(server: Served) -> list[object]:
    events = server.get_json("/debug/trace?limit=4000")["data"]
    return [event for event in events if event["name"] == "row.suspended"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--ceiling-mb", type=int)
    parser.add_argument("--bound", type=float)
    parser.add_argument("--small", action="store_true", help="a random model of two layers")
    options = parser.parse_args()
    options.ceiling_mb = options.ceiling_mb or (SMALL_CEILING_MB if options.small else CEILING_MB)
    options.bound = options.bound or (SMALL_BOUND if options.small else BOUND)
    ceiling = str(options.ceiling_mb * 10**6)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as parent:
        model = str(second_folder(default_folder(), Path(parent))) if options.small else None
        with served(model, "--memory-budget-bytes", ceiling, "--debug-trace") as server:
            claims = measure(server, options)
    verdict(claims)


if __name__ == "__main__":
    main()
