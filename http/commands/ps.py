"""`headrace ps`: what a running server is doing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from headrace.http.commands.remote import Remote, remote, server_options
from headrace.http.commands.shown import columns, duration, harmless, size

EXAMPLE = """\b
Examples:
  headrace ps
  headrace ps --watch
  headrace ps --json | jq .tokens_per_second
"""
MODELS = ("MODEL", "STATE", "SIZE", "ROWS", "WAITING", "KV")
REQUESTS = ("REQUEST", "MODEL", "STATE", "AGE", "PROMPT", "GENERATED")


@click.command(epilog=EXAMPLE)
@click.option("--watch", "-w", is_flag=True, help="go on until Ctrl-C")
@click.option("--json", "as_json", is_flag=True, help="print JSON; with --watch one object a line")
@click.option(
    "--interval",
    "seconds",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="seconds over which tokens are counted, and between two looks",
)
@server_options
def ps(watch: bool, as_json: bool, seconds: float, url: str | None, home: Path | None) -> None:
    """Show what a server holds and does: models in memory, rows, queue, tokens per second.

    Below stand the requests under way, the oldest first; never any of their text.
    """
    views = _views(remote(url, home), seconds)
    if not watch:
        view = next(views)
        click.echo(json.dumps(view, indent=2) if as_json else text(view))
        return
    try:
        if as_json:
            for view in views:
                click.echo(json.dumps(view))
        else:
            _live(views)
    except KeyboardInterrupt:
        pass


def _live(views: Iterator[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), auto_refresh=False, screen=False) as live:
        for view in views:
            live.update(Text(text(view)), refresh=True)


def _views(server: Remote, seconds: float) -> Iterator[dict[str, Any]]:
    """A view of each interval. Raises `ClickException` where the server does not answer."""
    before, at = server.get("/stats"), time.monotonic()
    while True:
        time.sleep(seconds)
        stats, requests, now = server.get("/stats"), server.get("/v1/requests"), time.monotonic()
        yield view_of(server.url, before, stats, requests["data"], now - at)
        before, at = stats, now


def view_of(
    url: str,
    before: dict[str, Any],
    stats: dict[str, Any],
    requests: list[dict[str, Any]],
    seconds: float,
) -> dict[str, Any]:
    """What two looks at /stats, so many seconds apart, and one at /v1/requests say. Pure."""
    rates = {
        kind: max(0.0, stats["tokens"][kind] - before["tokens"][kind]) / seconds
        for kind in ("prompt", "decoded")
    }
    models, batch = stats["models"], stats["batch"]
    return {
        "url": url,
        "version": stats["server"]["version"],
        "started_at": stats["server"]["started_at"],
        "draining": stats["server"]["draining"],
        "tokens_per_second": round(rates["decoded"], 1),
        "prompt_tokens_per_second": round(rates["prompt"], 1),
        "queue_depth": stats["requests"]["queue_depth"],
        "rows_running": stats["requests"]["rows_running"],
        "requests_in_flight": stats["requests"]["in_flight"],
        "resident_bytes": models["resident_bytes"],
        "budget_bytes": models["budget_bytes"],
        "current": models["current"],
        "models": [_model(row, batch[row["id"]]) for row in models["resident"]],
        "requests": requests,
    }


def _model(row: dict[str, Any], batch: dict[str, Any]) -> dict[str, Any]:
    kept = ("max_rows", "running_rows", "waiting_rows", "kv_bytes")
    return {
        "id": row["id"],
        "state": row["state"],
        "bytes": row["bytes"],
        "pinned": row["pinned"],
        "leases": row["leases"],
    } | {name: batch[name] for name in kept}


def text(view: dict[str, Any]) -> str:
    """A view for people. Pure."""
    state = ", draining" if view["draining"] else ""
    lines = [
        f"headrace {view['version']} at {view['url']}{state}",
        f"{view['tokens_per_second']:g} tokens/s decoded, "
        f"{view['prompt_tokens_per_second']:g} prompt tokens/s, "
        f"{view['rows_running']} rows, {view['queue_depth']} queued, "
        f"{size(view['resident_bytes'])} of {size(view['budget_bytes'])} resident",
        "",
        columns([MODELS, *map(_model_cells, view["models"])]),
    ]
    if view["requests"]:
        ordered = sorted(view["requests"], key=lambda row: -row["age_ms"])
        lines += ["", columns([REQUESTS, *map(_request_cells, ordered)])]
    return harmless("\n".join(lines))


def _model_cells(row: dict[str, Any]) -> tuple[str, ...]:
    pinned = " pinned" if row["pinned"] else ""
    rows = f"{row['running_rows']}/{row['max_rows']}"
    kv = size(row["kv_bytes"])
    return row["id"], row["state"] + pinned, size(row["bytes"]), rows, str(row["waiting_rows"]), kv


def _request_cells(row: dict[str, Any]) -> tuple[str, ...]:
    age = duration(row["age_ms"] / 1000)
    counts = str(row["prompt_tokens"]), str(row["generated_tokens"])
    return row["id"], row["model"] or "-", row["state"], age, *counts
