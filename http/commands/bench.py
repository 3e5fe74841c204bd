"""`headrace bench`: how fast a running server answers many at a time."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from headrace.http.commands.completing import models
from headrace.http.commands.remote import Remote, remote, server_options
from headrace.http.commands.shown import columns

if TYPE_CHECKING:
    from headrace.http.commands.load import Load

EXAMPLE = """\b
Examples:
  headrace bench
  headrace bench --concurrency 1,4,16 --requests 64 --prompt-tokens 512 --max-tokens 128
  headrace bench --json | jq '.[].tokens_per_second'
"""
HEADINGS = (
    "AT A TIME", "REQUESTS", "ERRORS", "TTFT P50", "TTFT P99",
    "BETWEEN P50", "BETWEEN P99", "TOKENS/S", "SECONDS",
)  # fmt: skip


def _numbers(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, ...]:
    """`4`, or `1,4,16`."""
    parts = value.split(",")
    if not all(part.isascii() and part.isdecimal() and int(part) for part in parts):
        raise click.BadParameter(f"{value} is no list of numbers like 1,4,16")
    return tuple(map(int, parts))


def _count(least: int = 1) -> click.IntRange:
    return click.IntRange(min=least)


@click.command(epilog=EXAMPLE)
@click.option(
    "--model", "-m", shell_complete=models, help="who answers [the server's current model]"
)
@click.option(
    "--concurrency",
    "-c",
    metavar="N[,N...]",
    callback=_numbers,
    default="4",
    show_default=True,
    help="requests at a time",
)
@click.option("--requests", "-n", type=_count(), default=16, show_default=True, help="in all")
@click.option("--prompt-tokens", type=_count(), default=128, show_default=True, help="about")
@click.option("--max-tokens", type=_count(), default=64, show_default=True, help="of each answer")
@click.option("--seed", type=_count(0), default=0, show_default=True, help="for other prompts")
@click.option("--warm-up", type=_count(0), default=1, show_default=True, help="not counted")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@server_options
def bench(
    model: str | None,
    concurrency: tuple[int, ...],
    requests: int,
    prompt_tokens: int,
    max_tokens: int,
    seed: int,
    warm_up: int,
    as_json: bool,
    url: str | None,
    home: Path | None,
) -> None:
    """Put a load on a running server, and measure what its clients see.

    For each number of requests at a time there is a line: time to the first token, time between
    two pieces of text (half of them are below P50, all but one in a hundred below P99), tokens a
    second over all. Prompts are random words, different in each request. The exit code is 1 where
    a request failed.
    """
    from headrace.http.commands.load import Load

    server = remote(url, home)
    # So that one who is not there, or wants a key, is told as such.
    server.get("/v1/models")
    load = Load(model, requests, prompt_tokens, max_tokens, seed)
    if warm_up:
        warming = attrs.evolve(load, requests=warm_up, seed=seed + 1_000_000)
        _measured(server, warming, 1)
    rows = [
        # Prompts of their own for each, as the server keeps the ones before.
        _measured(server, attrs.evolve(load, seed=seed + number), number)
        for number in concurrency
    ]
    click.echo(json.dumps(rows, indent=2) if as_json else columns([HEADINGS, *map(_cells, rows)]))
    for row in rows:
        for kind, count in row["error_kinds"].items():
            click.echo(f"{row['concurrency']} at a time: {count} times {kind}", err=True)
    sys.exit(any(row["errors"] for row in rows))


def _measured(server: Remote, load: Load, concurrency: int) -> dict[str, Any]:
    import trio

    from headrace.http.commands.figures import summary
    from headrace.http.commands.load import put

    with _bar(f"{concurrency} at a time", load.requests) as done:
        began = time.perf_counter()
        samples = trio.run(put, server, load, concurrency, done)
        seconds = time.perf_counter() - began
    return summary(samples, concurrency, seconds)


@contextmanager
def _bar(doing: str, total: int) -> Iterator[Callable[[], None]]:
    """Told of each request; drawn only where somebody looks."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(doing, total=total)
        yield lambda: progress.advance(task)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    times = ("ttft_p50_s", "ttft_p99_s", "inter_token_p50_s", "inter_token_p99_s")
    return (
        *(str(row[name]) for name in ("concurrency", "requests", "errors")),
        *(_milliseconds(row[name]) for name in times),
        f"{row['tokens_per_second']:.1f}",
        f"{row['seconds']:.1f}",
    )


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f} ms"
