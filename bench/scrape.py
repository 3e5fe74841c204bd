"""What a scrape of /metrics costs, at rest and while rows decode; in a server of its own.

    python bench/scrape.py [--scrapes 500] [--rows 8]

The scripted model decodes as fast as it is asked to, so what is measured is the page and nothing of
a model. `page` is the making of its text in processor time; `over HTTP` is the whole request as its
client in the same process waits for it. Last comes a server in a process of its own: the wait of a
client outside, and the processor time of the server for each scrape, which the bound is for.
"""

from __future__ import annotations

import argparse
import http.client as http_client
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import trio
from prometheus_client.parser import text_string_to_metric_families
from served import process_seconds

from headrace.http.metrics import Metrics
from headrace.runtime.testing import ScriptedModel, Timings
from headrace.runtime.testing.scripted_process import scripted_serving
from headrace.runtime.testing.site import Caller, Site, chat, http, open_site

BOUND_SECONDS = 0.005
# Scrapes that are not counted.
WARM = 20


async def over_http(site: Site, count: int) -> list[float]:
    """Seconds of each scrape, one after another on one connection."""
    seconds = []
    async with site.dial() as caller:
        for _ in range(count):
            began = time.perf_counter()
            await caller.send(http("GET", "/metrics", close=False))
            reply = await caller.read_reply()
            seconds.append(time.perf_counter() - began)
            assert reply.status == 200
    return seconds


def page(metrics: Metrics, count: int) -> list[float]:
    seconds = []
    for _ in range(count):
        began = time.thread_time()
        metrics.text()
        seconds.append(time.thread_time() - began)
    return seconds


def of_its_own(count: int) -> tuple[list[float], float]:
    """Seconds of each scrape for a client outside, and of the server's processor for each."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as home,
        scripted_serving(Path(home)) as server,
    ):
        connection = http_client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        seconds, worked = [], 0.0
        for number in range(WARM + count):
            if number == WARM:
                worked = process_seconds(server.process.pid)
            began = time.perf_counter()
            connection.request("GET", "/metrics")
            connection.getresponse().read()
            seconds.append(time.perf_counter() - began)
        worked = process_seconds(server.process.pid) - worked
        connection.close()
    return seconds[WARM:], worked / count


async def hold(site: Site, caller: Caller) -> None:
    """Read a stream for as long as it is measured beside it."""
    await caller.send(chat(stream=True))
    await caller.read_to_end()


async def measure(scrapes: int, rows: int) -> bool:
    model = ScriptedModel(load_seconds=0, timings=Timings(seconds_per_decode=0.02))
    async with open_site(model) as site, trio.open_nursery() as nursery:
        metrics = Metrics(site.scene.runtime)
        for text in ("one", "two", "three"):
            await site.call(chat(text, max_tokens=8, stream=True))
        good = tell("page, at rest", page(metrics, scrapes))
        tell("over HTTP, at rest", await over_http(site, scrapes))
        for _ in range(rows):
            caller = await nursery.start(dialled, site)
            nursery.start_soon(partial(hold, site, caller))
        await site.until(lambda: site.scene.runtime.statistics().rows_running == rows)
        good &= tell(f"page, {rows} rows", page(metrics, scrapes))
        tell(f"over HTTP, {rows} rows", await over_http(site, scrapes))
        families = list(text_string_to_metric_families(metrics.text().decode()))
        samples = sum(len(family.samples) for family in families)
        print(f"{len(families)} families, {samples} samples, {len(metrics.text())} bytes")
        nursery.cancel_scope.cancel()
    return good


async def dialled(site: Site, *, task_status: trio.TaskStatus[Caller]) -> None:
    async with site.dial() as caller:
        task_status.started(caller)
        await trio.sleep_forever()


def tell(what: str, seconds: Sequence[float]) -> bool:
    """Print a line; whether the median is within the bound."""
    ordered = sorted(seconds)
    median, p99 = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
    print(f"{what:24} median {median * 1000:6.2f} ms   p99 {p99 * 1000:6.2f} ms")
    return median < BOUND_SECONDS


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scrapes", type=int, default=500)
    parser.add_argument("--rows", type=int, default=8)
    arguments = parser.parse_args()
    good = trio.run(measure, arguments.scrapes, arguments.rows)
    waited, worked = of_its_own(arguments.scrapes)
    tell("server apart, waited", waited)
    print(f"server apart, worked     mean   {worked * 1000:6.2f} ms")
    if not (good and worked < BOUND_SECONDS):
        raise SystemExit(f"a scrape takes more than {BOUND_SECONDS * 1000:g} ms")


if __name__ == "__main__":
    main()
