"""Soak a real server: real models in worker processes, real sockets, faults, drops, overload.

    make soak MINUTES=60

Clients of every protocol come again and again, and a third of them leave without their answer.
Meanwhile workers are killed, frozen and unloaded, models take turns, and crowds come. Once a minute
all is let come to rest: every gauge has to be where it was at the start, and memory is read. What
must hold is looked at all the time from outside. Fails with exit code 1 if anything did not.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio
from _second import default_folder
from _small import random_llama
from rich.console import Console
from served import Served, served
from soak.book import Book
from soak.clients import Client
from soak.looks import ANSWER_SECONDS, Looks
from soak.memory import Sample
from soak.processes import still_alive
from soak.report import report, show
from soak.weather import Weather

LOOK_SECONDS = 0.5
STEP_SECONDS = 8.0
# Until a frozen worker must be gone, on a machine that has other things to do.
FROZEN_SECONDS = 3 * STEP_SECONDS
# In which all comes to rest once nobody asks: a worker may have to be started again first.
SETTLE_SECONDS = 40.0
OPTIONS = {
    "--max-rows": 8,
    "--queue-limit": 16,
    "--queue-timeout-s": 60,
    "--step-timeout-s": STEP_SECONDS,
    "--restart-limit": 1000,
    "--restart-period-s": 1,
    "--write-stall-s": 3,
    "--prompt-cache-bytes": 16 << 20,
    "--embedding-pooling": "mean",
    "--log-level": "error",
}


@attrs.define
class Soak:
    server: Served
    book: Book
    looks: Looks
    weather: Weather
    options: argparse.Namespace
    samples: list[Sample] = attrs.field(factory=list)
    settled: list[float] = attrs.field(factory=list)
    worker_pids: set[int] = attrs.field(factory=set)
    _baseline: dict[str, int] = attrs.field(factory=dict)

    async def run(self) -> None:
        seconds = 60 * self.options.minutes
        await self.warm()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.look_on)
            nursery.start_soon(self.weather.run)
            for number in range(self.options.clients):
                nursery.start_soon(self.client(number).run)
            nursery.start_soon(self.crowds, nursery)
            while self.book.seconds < seconds:
                await trio.sleep(min(self.options.rest_every, seconds - self.book.seconds))
                self.weather.last_half = self.book.seconds > seconds / 2
                await self.rest()
            nursery.cancel_scope.cancel()

    async def warm(self) -> None:
        """Each model once, the main one last; then everything is as it has to be at rest."""
        for model in reversed(self.weather.models):
            await self.looks.load(model)
        self._baseline = (await self.looks.look(disturbed=True)).gauges

    def client(self, number: int) -> Client:
        share, pause = self.options.drop_share, self.options.pause_seconds
        return Client(number, self.server.port, self.book, self.weather, share, pause)

    async def crowds(self, nursery: trio.Nursery) -> None:
        """Many more clients while there is a crowd; each asks once."""
        number = 1000
        while True:
            await trio.sleep(1.0)
            if self.weather.crowd and self.weather.open:
                for _ in range(self.options.crowd):
                    number += 1
                    nursery.start_soon(self.client(number).one, f"soak-{number}")

    async def look_on(self) -> None:
        while True:
            try:
                await self.looks.look(disturbed=self.weather.disturbed)
            except trio.TooSlowError:
                self.book.violate(f"no answer to an operator within {ANSWER_SECONDS:.0f} s")
            self.worker_pids |= set(self.looks.pids().values())
            if self.server.process.poll() is not None:
                self.book.violate(f"the server ended with {self.server.process.returncode}")
                raise SystemExit("the server is gone")
            await trio.sleep(LOOK_SECONDS)

    async def rest(self) -> None:
        """Let everybody come to an end, and see that nothing is left of them."""
        self.weather.close_gate()
        while self.book.live or self.weather.disturbed:  # noqa: ASYNC110 - from many places
            await trio.sleep(0.1)
        began = trio.current_time()
        while (look := self.looks.last) is None or look.gauges != self._baseline:
            if trio.current_time() > began + SETTLE_SECONDS:
                now = None if look is None else look.gauges
                self.book.violate(f"not at rest: {now}, and {self._baseline} at the start")
                break
            await trio.sleep(LOOK_SECONDS)
        self.settled.append(trio.current_time() - began)
        main = self.looks.pids().get(self.weather.models[0])
        sample = await Sample.of(
            self.book.seconds, self.book.requests, self.server.process.pid, main
        )
        self.samples.append(sample)
        self.book.left.clear()
        self._tell()
        self.weather.open_gate()

    def _tell(self) -> None:
        book = self.book
        print(
            f"{book.seconds / 60:5.1f} min {book.requests:6} requests {book.dropped:6} dropped "
            f"{book.violations_total:3} violations",
            flush=True,
        )


async def soaked(server: Served, models: tuple[str, ...], budget: int, options: Any) -> Soak:
    book = Book()
    looks = Looks(server.port, book, budget)
    weather = Weather(models, book, looks, server.process.pid, FROZEN_SECONDS)
    soak = Soak(server, book, looks, weather, options)
    await soak.run()
    return soak


def sizes(folders: list[Path]) -> dict[str, int]:
    """Ids and bytes of the models, asked of a server that has room for them all."""
    with served(str(folders[0]), *_also(folders[1:]), "--log-level", "error") as server:
        rows = server.get_json("/v1/models")["data"]
        found = {}
        for folder in folders:
            (row,) = [row for row in rows if folder.name in row["id"]] or [rows[0]]
            _load(server.port, row["id"])
            loaded = server.get_json(f"/v1/models/{row['id']}")
            found[row["id"]] = int(loaded["size_bytes"])
    return found


def _load(port: int, model: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", f"/admin/models/{model}/load", "{}", headers)
    if connection.getresponse().status != 200:
        raise SystemExit(f"{model} could not be loaded")
    connection.close()


def _also(folders: list[Path]) -> list[str]:
    return [word for folder in folders for word in ("--models", str(folder))]


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--crowd", type=int, default=25, help="further clients in each second")
    parser.add_argument("--pause-seconds", type=float, default=0.4)
    parser.add_argument("--drop-share", type=float, default=0.34)
    parser.add_argument("--rest-every", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--report", type=Path, default=Path("build/soak.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        parent, words = Path(name), default_folder()
        folders = [random_llama(words, parent / f"small-{n}", n) for n in (1, 2)]
        known = sizes([*folders, words])
        # Room for the main model and one of the others.
        main_bytes, *others = known.values()
        budget = main_bytes + max(others) + min(others) // 2
        given = [str(word) for option in OPTIONS.items() for word in option]
        given += ["--model-budget-bytes", str(budget), "--debug-trace"]
        with served(str(folders[0]), *_also([*folders[1:], words]), *given) as server:
            soak = trio.run(partial(soaked, server, tuple(known), budget, options))
    return _conclude(soak, options)


def _conclude(soak: Soak, options: argparse.Namespace) -> int:
    """The server has ended: see that its workers have, and tell all of it."""
    orphans = still_alive(soak.worker_pids, "headrace.actors.worker")
    if orphans:
        soak.book.violate(f"workers outlive their server: {orphans}")
    code = soak.server.process.returncode
    if code != 0:
        soak.book.violate(f"the server ended with {code}")
    minutes = soak.samples[-1].at / 60
    found = report(soak.book, soak.looks, soak.samples, minutes, soak.settled)
    found |= {"workers": len(soak.worker_pids), "orphans": len(orphans)}
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(json.dumps(found, indent=1))
    show(found, Console(width=120))
    return 1 if soak.book.violations_total else 0


if __name__ == "__main__":
    sys.exit(main())
