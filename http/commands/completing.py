"""What a shell is offered where a command takes a model."""

from __future__ import annotations

import os

import click
from click.shell_completion import CompletionItem

from headrace.http.commands.remote import home_of
from headrace.http.commands.shown import size
from headrace.runtime.errors import RequestError


def models(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The models on this machine; none where they cannot be told, as nobody reads errors here."""
    from headrace.actors.library import library_at

    try:
        home = home_of(context.params.get("home"))
        folders = library_at(home, os.environ).scan()
    except (click.ClickException, RequestError, OSError):
        return []
    return [
        CompletionItem(folder.id, help=size(folder.size_bytes))
        for folder in folders
        if folder.id.startswith(incomplete)
    ]
