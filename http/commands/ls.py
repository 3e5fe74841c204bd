"""`headrace ls`: the models on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.http.commands.remote import Remote, home_of, remote, server_options
from headrace.http.commands.shown import columns, size

if TYPE_CHECKING:
    from headrace.actors.library import ModelFolder

EXAMPLE = """\b
Examples:
  headrace ls
  headrace ls --json | jq -r '.[] | select(.resident) | .id'
"""
HEADINGS = ("MODEL", "SIZE", "FROM", "STATE")


@click.command(epilog=EXAMPLE)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@server_options
def ls(as_json: bool, url: str | None, home: Path | None) -> None:
    """List the models on this machine: in the home folder, and in the hub's cache.

    Where a server answers, its word for the state of each is added: ready, unloaded, loading.
    Without one the state is unknown, and the exit code is 0 all the same.
    """
    from headrace.actors.library import library_at

    folders = library_at(home_of(home), os.environ).scan()
    states = _states(remote(url, home))
    rows = [_row(folder, states) for folder in folders]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        click.echo(columns([HEADINGS, *(_cells(row) for row in rows)]))


def _states(server: Remote) -> dict[str, dict[str, Any]] | None:
    """What a server says of its models by id; None where none answers, or not to us."""
    try:
        return {row["id"]: row for row in server.get("/v1/models")["data"]}
    except (click.ClickException, KeyError, TypeError):
        return None


def _row(folder: ModelFolder, states: dict[str, dict[str, Any]] | None) -> dict[str, Any]:
    known = None if states is None else states.get(folder.id)
    return {
        "id": folder.id,
        "size_bytes": folder.size_bytes,
        "source": folder.origin,
        "path": str(folder.path),
        "model_type": folder.model_type,
        "resident": None if states is None else bool(known and known["resident"]),
        "state": known and known["state"],
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return row["id"], size(row["size_bytes"]), row["source"], row["state"] or "-"
