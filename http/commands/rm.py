"""`headrace rm`: delete a model from the home."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.http.commands.completing import models
from headrace.http.commands.remote import NoServer, Remote, checked, home_of, server_options
from headrace.http.commands.shown import size
from headrace.runtime.config import KEY_VARIABLE
from headrace.runtime.errors import RequestError

if TYPE_CHECKING:
    from headrace.actors.library import ModelFolder

EXAMPLE = """\b
Examples:
  headrace rm smollm2-135m-instruct
  headrace rm --yes smollm2-135m-instruct && headrace ls
"""
# States of a model whose files a server may still read.
IN_USE = frozenset({"loading", "ready", "draining", "restarting"})


@click.command(epilog=EXAMPLE)
@click.argument("model", shell_complete=models)
@click.option("--yes", "-y", is_flag=True, help="do not ask")
@server_options
def rm(model: str, yes: bool, url: str | None, home: Path | None) -> None:
    """Delete MODEL from the home folder, after asking.

    Only what `headrace` fetched or converted itself is deleted: not your own folders, and nothing
    of the hub's cache. Refused while a server that runs here has the model in memory.
    """
    from headrace.actors.library import library_at

    home = home_of(home)
    library = library_at(home, os.environ)
    try:
        folder = library.find(model)
        if folder is None:
            raise click.ClickException(f"{model} is not on this machine; see `headrace ls`")
        for server in _servers(url, home):
            _check_unused(folder, server)
        much = size(folder.size_bytes)
        yes or click.confirm(f"Delete {folder.id} ({much}, {folder.path})?", abort=True, err=True)
        library.remove(folder)
    except RequestError as error:
        raise click.ClickException(error.info.message) from None
    click.echo(f"{folder.id} is deleted, {much} are free")


def _servers(url: str | None, home: Path) -> Iterator[Remote]:
    from headrace.http.run_file import running

    key = os.environ.get(KEY_VARIABLE) or None
    urls = {server.url for server in running(home)} | ({checked(url)} if url else set())
    yield from (Remote(address, key) for address in sorted(urls))


def _check_unused(folder: ModelFolder, server: Remote) -> None:
    """Raises `ClickException` where the server has the model, or does not say whether."""
    try:
        rows = server.get("/v1/models")["data"]
    except NoServer:
        return
    if any(row["id"] == folder.id and row["state"] in IN_USE for row in rows):
        raise click.ClickException(
            f"{folder.id} is in the memory of the server at {server.url}; "
            f"unload it there, or `headrace stop` the server"
        )
