#!/usr/bin/env python3
"""Hundreds of clients who hang up in every phase, while workers stand still now and then.

    python bench/disconnects.py --count 500 --clients 8        about 4 minutes

Two models that do not fit together, two rows each: so requests are found queued, loading, in
prefill and decoding. Each client waits until its request is in the phase that was drawn for it,
and then closes, resets or half-closes its connection. Now and then a worker is stopped for a
second by SIGSTOP. At the end every gauge has to be back where it was, and no worker has died.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
from _second import default_folder, second_folder
from cancel import close, half_close, prompt, reset
from served import Served, chat, served, verdict
from two_models import expected_bytes, ids

PHASES = ("queued", "loading", "prefilling", "decoding")
ENDS = (close, reset, half_close)
# A phase may not come, or be over before it is seen; the client then leaves where it is.
PATIENCE_SECONDS = 3.0
STOP_SECONDS = 1.0
# A worker that stood still when the last client left has this long.
SETTLE_SECONDS = 20.0
LOOK_SECONDS = 0.01


@attrs.define
class Watch:
    """Stages of the live requests, read again and again by one thread."""

    server: Served
    stages: dict[str, str] = attrs.field(factory=dict)
    over: bool = False

    def run(self) -> None:
        while not self.over:
            live = self.server.get_json("/v1/requests")["data"]
            self.stages = {request["id"]: request["state"] for request in live}
            time.sleep(LOOK_SECONDS)


@attrs.define
class Crowd:
    """Clients who take numbers until there are none left."""

    port: int
    models: list[str]
    watch: Watch
    numbers: list[int]
    # The stage of each request when its client left. Lists may be shared between threads.
    left: list[str] = attrs.field(factory=list)
    failures: list[str] = attrs.field(factory=list)

    def run(self) -> None:
        while True:
            try:
                self.one(self.numbers.pop())
            except IndexError:
                return
            except OSError as error:
                self.failures.append(repr(error))

    def one(self, number: int) -> None:
        draw = random.Random(number)
        phase = draw.choice(PHASES)
        # Mostly the first model, or nobody would get beyond a swap.
        model = self.models[draw.random() < 0.2]
        text = prompt(1500 if phase == "prefilling" else 30, number)
        stream = draw.random() < 0.7
        fields: dict[str, Any] = {"model": model, "max_tokens": 400, "stream": stream}
        with socket.create_connection(("127.0.0.1", self.port), timeout=120) as client:
            client.sendall(chat(text, f"leaves-{number}", ignore_eos=True, **fields))
            self.left.append(self.seen(f"leaves-{number}", phase))
            draw.choice(ENDS)(client)

    def seen(self, name: str, phase: str) -> str:
        """Wait for the phase; the one in which the request was last seen."""
        until = time.monotonic() + PATIENCE_SECONDS
        stage = "not yet seen"
        while time.monotonic() < until and stage != phase:
            time.sleep(LOOK_SECONDS)
            stage = self.watch.stages.get(name, stage)
        return stage


def stop_one(server: Served) -> bool:
    """Let a random worker stand still for a while; whether there was one."""
    pids = [w["pid"] for w in server.get_json("/engine")["workers"] if w["pid"]]
    if not pids:
        return False
    pid = random.choice(pids)
    try:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(STOP_SECONDS)
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:  # it was just being unloaded
        return False
    return True


def gauges(server: Served) -> dict[str, Any]:
    stats = server.get_json("/stats")
    requests = stats["requests"]
    names = ("in_flight", "queue_depth", "rows_running", "leases")
    rows = sum(b["running_rows"] + b["waiting_rows"] for b in stats["batch"].values())
    kv = {"kv_bytes": stats["ledger"]["kv_bytes"], "rows of models": rows}
    return {name: requests[name] for name in names} | kv


def settled(server: Served, before: dict[str, Any]) -> float | None:
    """Seconds until every gauge is as before; None if that does not come."""
    began = time.monotonic()
    while time.monotonic() - began < SETTLE_SECONDS:
        if gauges(server) == before:
            return time.monotonic() - began
        time.sleep(LOOK_SECONDS)
    return None


def measure(server: Served, other: Served, models: list[str], options: Any) -> dict[str, bool]:
    before = gauges(server)
    watch = Watch(other)
    crowd = Crowd(server.port, models, watch, list(range(options.count)))
    threads = [threading.Thread(target=crowd.run) for _ in range(options.clients)]
    watching = threading.Thread(target=watch.run)
    for thread in (watching, *threads):
        thread.start()
    stops = 0
    while any(thread.is_alive() for thread in threads):
        time.sleep(random.uniform(1.0, 4.0))
        stops += stop_one(server)
    watch.over = True
    watching.join()
    seconds = settled(server, before)
    for failure in crowd.failures[:3]:
        print(f"       failed: {failure}")
    for phase, count in sorted(Counter(crowd.left).items()):
        print(f"{count:6} left while {phase}")
    print(f"{stops:6} times a worker stood still for {STOP_SECONDS:.0f} s")
    cancelled = server.metric("headrace_cancelled_total", reason="disconnect")
    restarts = server.metric("headrace_worker_restarts_total")
    print(f"{cancelled:6.0f} cancelled\n{restarts:6.0f} restarts of workers")
    print(f"before {before}\nafter  {gauges(server)}")
    if seconds is not None:
        print(f"back at the baseline after {seconds:.2f} s")
    return {
        "all clients came and left": len(crowd.left) == options.count and not crowd.failures,
        "every gauge is back at its baseline": seconds is not None,
        "no worker died": restarts == 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--clients", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as parent:
        first = default_folder()
        second = second_folder(first, Path(parent))
        common = ("--models", str(second), "--log-level", "error")
        with served(str(first), *common) as server:
            models = ids(server, second)
            budget = sum(expected_bytes(server, models)) * 9 // 10
        rows = ("--max-rows", "2", "--model-budget-bytes", str(budget), "--debug-trace")
        with served(str(first), *common, *rows) as server:
            # A connection of its own for the thread that watches.
            other = Served(server.process, server.port, server.log)
            held = measure(server, other, models, options)
        verdict(held)


if __name__ == "__main__":
    main()
