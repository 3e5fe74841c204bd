"""What must hold at every look, whatever is going on. Pure: looks in, sentences out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from soak.book import Book

# A client that left is forgotten by then, also where its worker stood still meanwhile.
FORGOTTEN_SECONDS = 30.0
COUNTING = ("_total", "_count", "_bucket")


@attrs.frozen
class Look:
    """`at` is on the run's clock; `live` are the ids of the requests that the server has."""

    at: float
    stats: Mapping[str, Any]
    engine: Mapping[str, Any]
    metrics: Mapping[str, float]
    live: tuple[str, ...]

    @property
    def gauges(self) -> dict[str, int]:
        """All that has to be as it was once nobody asks for anything."""
        requests = self.stats["requests"]
        names = ("in_flight", "queue_depth", "rows_running", "leases")
        rows = sum(b["running_rows"] + b["waiting_rows"] for b in self.stats["batch"].values())
        kv_bytes = self.stats["ledger"]["kv_bytes"]
        return {name: requests[name] for name in names} | {"rows": rows, "kv_bytes": kv_bytes}


def broken(look: Look, last: Look | None, book: Book, budget_bytes: int) -> Iterator[str]:
    yield from _below_zero("stats", look.stats)
    yield from _running_back(look, last)
    yield from _too_much(look, budget_bytes)
    yield from _strangers(look, book)
    yield from _processes(look)


def _below_zero(where: str, values: Any) -> Iterator[str]:
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield from _below_zero(f"{where}.{name}", value)
    elif isinstance(values, int | float) and values < 0:
        yield f"{where} is {values}"


def _running_back(look: Look, last: Look | None) -> Iterator[str]:
    """Counters only grow, over the deaths of workers too."""
    before = {} if last is None else last.metrics
    for series, value in look.metrics.items():
        name = series.partition("{")[0]
        if name.endswith(COUNTING) and value < before.get(series, 0.0):
            yield f"{series} went from {before[series]:g} to {value:g}"


def _too_much(look: Look, budget_bytes: int) -> Iterator[str]:
    held = look.stats["models"]["resident_bytes"]
    if held > budget_bytes:
        yield f"models hold {held:,} bytes of a budget of {budget_bytes:,}"
    for model, batch in look.stats["batch"].items():
        if batch["running_rows"] > batch["max_rows"]:
            yield f"{model} runs {batch['running_rows']} rows of {batch['max_rows']}"


def _strangers(look: Look, book: Book) -> Iterator[str]:
    """Every live request has a client, or had one until a moment ago."""
    for name in look.live:
        if name in book.live:
            continue
        gone = look.at - book.left.get(name, look.at)
        if gone > FORGOTTEN_SECONDS:
            yield f"{name} is still there {gone:.0f} s after its client left"


def _processes(look: Look) -> Iterator[str]:
    pids = [worker["pid"] for worker in look.engine["workers"] if worker["pid"]]
    if len(set(pids)) < len(pids):
        yield f"two models have one worker: {pids}"
    exhausted = [w["id"] for w in look.engine["workers"] if w["state"] == "exhausted"]
    if exhausted:
        yield f"{', '.join(exhausted)} will not be started again"
