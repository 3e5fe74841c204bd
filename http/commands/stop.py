"""`headrace stop`: let a running server finish what it has begun, and end."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.http.commands.remote import NoServer, checked, home_of, one_of, server_options

if TYPE_CHECKING:
    from headrace.http.run_file import Running

EXAMPLE = """\b
Examples:
  headrace stop
  headrace stop --url http://127.0.0.1:9000 --wait 120
"""
# More than what a server gives its requests and its workers to end (design/tree.md).
WAIT_SECONDS = 60.0
APART_SECONDS = 0.5


@click.command(epilog=EXAMPLE)
@click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(min=0),
    default=WAIT_SECONDS,
    show_default=True,
    help="seconds until it must have ended",
)
@click.option("--now", is_flag=True, help="end requests at once instead of letting them finish")
@server_options
def stop(seconds: float, now: bool, url: str | None, home: Path | None) -> None:
    """Ask the server that runs on this machine to finish its requests and end; wait until it has.

    It is found by the file that `headrace serve` keeps in its home, so use the same --home. The
    exit code is 0 when it has ended, 1 when it has not within --wait, 3 when none runs.
    """
    from headrace.http.run_file import running, wait_end, watched

    home = home_of(home)
    server = _chosen(running(home), url)
    with watched(home, server) as opened:
        if opened is None:
            click.echo(f"the server at {server.url} has just ended")
            return
        _ask(server)
        # Two signals that come together would be one.
        if now and not wait_end(opened, APART_SECONDS):
            _ask(server)
        if not wait_end(opened, seconds):
            raise click.ClickException(
                f"the server at {server.url} (process {server.pid}) still finishes its requests "
                f"after {seconds:g} s; wait for it, or end them with --now"
            )
    click.echo(f"the server at {server.url} has ended")


def _ask(server: Running) -> None:
    """Its lock is held, so the number is still that of the server."""
    try:
        os.kill(server.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise click.ClickException(f"process {server.pid} belongs to another user") from None


def _chosen(found: tuple[Running, ...], url: str | None) -> Running:
    if url is not None:
        address = checked(url)
        found = tuple(server for server in found if server.listens_at(address))
    if not found:
        where = f" at {url}" if url else ""
        raise NoServer(f"no server of this home runs{where} on this machine")
    return one_of(found)
