"""What a soak came to: as JSON for a file, and as tables for people."""

from __future__ import annotations

from typing import Any

import attrs
from rich.console import Console
from rich.table import Table
from soak.book import Book, at_share
from soak.looks import Looks
from soak.memory import MIB, Sample, growth


def report(
    book: Book, looks: Looks, samples: list[Sample], minutes: float, settled: list[float]
) -> dict[str, Any]:
    outcomes: dict[str, dict[str, int]] = {}
    for (ask, outcome), count in sorted(book.outcomes.items()):
        outcomes.setdefault(ask, {})[outcome] = count
    return {
        "minutes": round(minutes, 2),
        "requests": book.requests,
        "requests_per_second": round(book.requests / (60 * minutes), 2),
        "dropped": book.dropped,
        "dropped_percent": round(100 * book.dropped / max(1, book.requests), 1),
        "ways": dict(book.ways),
        "outcomes": outcomes,
        "deeds": dict(book.deeds),
        "looks": looks.count,
        "rests": len(settled),
        "settled_worst_seconds": round(max(settled, default=0.0), 2),
        "answer_p50_ms": round(at_share(book.waits, 0.5) * 1000, 1),
        "answer_p99_ms": round(at_share(book.waits, 0.99) * 1000, 1),
        "health_p99_ms": round(at_share(looks.health_seconds, 0.99) * 1000, 1),
        "memory": [attrs.asdict(sample) for sample in samples],
        "memory_growth_last_half": growth(samples),
        **looks.timings.report(),
        "violations": book.violations_total,
        "violations_kept": [attrs.asdict(violation) for violation in book.violations],
    }


def show(found: dict[str, Any], console: Console) -> None:
    console.print(_summary(found))
    console.print(_outcomes(found["outcomes"]))
    console.print(_times(found))
    console.print(_memory(found["memory"]))
    for violation in found["violations_kept"][:20]:
        console.print(f"VIOLATION at {violation['at']} s: {violation['what']}", markup=False)


def _summary(found: dict[str, Any]) -> Table:
    table = Table("figure", "value", title="soak")
    left_out = ("outcomes", "memory", "violations_kept", "steps", "row freed after its client left")
    for name, value in found.items():
        if name not in left_out:
            table.add_row(name, str(value))
    return table


def _outcomes(outcomes: dict[str, dict[str, int]]) -> Table:
    columns = sorted({outcome for row in outcomes.values() for outcome in row})
    table = Table("asked", *columns, title="how requests ended")
    for ask, row in outcomes.items():
        table.add_row(ask, *(str(row.get(column, "")) for column in columns))
    return table


def _times(found: dict[str, Any]) -> Table:
    table = Table("ms", "model", "count", "p50", "p99", "worst", title="rows and steps")
    freed = found["row freed after its client left"]
    parts = {"step": found["steps"]} | {f"row freed, {part}": freed[part] for part in freed}
    for name, models in parts.items():
        for model, times in models.items():
            cells = (times["count"], times["p50_ms"], times["p99_ms"], times["worst_ms"])
            table.add_row(name, model.rpartition("/")[2], *map(str, cells))
    return table


def _memory(samples: list[dict[str, Any]]) -> Table:
    table = Table(
        "minute", "requests", "server MiB", "main worker MiB", "pid", "workers MiB", title="at rest"
    )
    # A dozen rows show how it goes; the file has them all.
    for sample in samples[:: max(1, len(samples) // 12)]:
        sizes = (sample[name] // MIB for name in ("server_bytes", "worker_bytes"))
        table.add_row(
            f"{sample['at'] / 60:.1f}",
            str(sample["requests"]),
            *map(str, sizes),
            str(sample["worker_pid"]),
            str(sample["all_workers_bytes"] // MIB),
        )
    return table
