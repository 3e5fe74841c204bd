#!/usr/bin/env python3
"""Two hundred connections at once on a queue of 64: each gets an answer, or a time to come back.

    python bench/overload.py --connections 200 --rows 8

Each client sends one short request at the same moment. Who is refused with 429 waits for as long
as `retry-after-ms` says and tries once more; one that obeys is to be served. Ends with ok, or with
exit code 1 where any call got something else, or where anybody who obeyed was refused again.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import threading
import time
from collections import Counter

import attrs
from served import Served, served, verdict


@attrs.frozen
class Call:
    """One try: its status, what it took, and after how long to come back."""

    status: int
    seconds: float
    retry_seconds: float | None = None


@attrs.define
class Client:
    number: int
    port: int
    max_tokens: int
    calls: list[Call] = attrs.field(factory=list)

    def run(self, gate: threading.Barrier) -> None:
        gate.wait()
        self.calls.append(self.ask())
        retry_seconds = self.calls[-1].retry_seconds
        if self.calls[-1].status == 429 and retry_seconds is not None:
            time.sleep(retry_seconds)
            self.calls.append(self.ask())

    def ask(self) -> Call:
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=900)
        content = f"Write a line about the number {self.number}."
        fields = {"messages": [{"role": "user", "content": content}], "max_tokens": self.max_tokens}
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(fields), headers)
        answer = connection.getresponse()
        answer.read()
        after = answer.getheader("retry-after-ms")
        connection.close()
        seconds = time.monotonic() - began
        return Call(answer.status, seconds, None if after is None else int(after) / 1000)


def measure(server: Served, options: argparse.Namespace) -> dict[str, bool]:
    gate = threading.Barrier(options.connections)
    numbers = range(options.connections)
    clients = [Client(number, server.port, options.max_tokens) for number in numbers]
    # Some answers first, all rows at a time, so that the service rate is known.
    warming = [threading.Thread(target=clients[n].ask) for n in range(2 * options.rows)]
    for thread in warming:
        thread.start()
    for thread in warming:
        thread.join()
    threads = [threading.Thread(target=client.run, args=(gate,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first = Counter(client.calls[0].status for client in clients)
    again = [client.calls[1] for client in clients if len(client.calls) > 1]
    second = Counter(call.status for call in again)
    refused = [c.calls[0] for c in clients if c.calls[0].status == 429]
    waits = [call.retry_seconds for call in refused if call.retry_seconds is not None]
    print(f"at once: {dict(first)}; after the wait: {dict(second)}")
    if waits:
        print(
            f"told to wait {min(waits):.1f} to {max(waits):.1f} s; refusals took "
            f"{statistics.median(call.seconds for call in refused) * 1000:.0f} ms"
        )
    return {
        "each is answered or refused": set(first) <= {200, 429},
        "each refusal has a time to come back": len(waits) == len(refused),
        "some are refused": bool(refused),
        "who obeys is served": set(second) <= {200},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--queue", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=16)
    options = parser.parse_args()
    limits = ("--max-rows", str(options.rows), "--queue-limit", str(options.queue))
    with served(None, *limits) as server:
        claims = measure(server, options)
    verdict(claims)


if __name__ == "__main__":
    main()
