"""`headrace fit`: whether a model fits, before it is loaded."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
import msgspec

from headrace.http.commands.completing import models
from headrace.http.options import resolved, setting_options
from headrace.runtime.errors import Code, RequestError

if TYPE_CHECKING:
    from headrace.runtime.contracts import ModelInfo
    from headrace.runtime.settings import Settings

EXAMPLE = """\b
Examples:
  headrace fit
  headrace fit path/to/an/mlx-lm/folder --ctx 32768 --memory-budget-bytes 16000000000
"""


@click.command(epilog=EXAMPLE)
@click.argument("source", metavar="[MODEL]", required=False, shell_complete=models)
@click.option("--ctx", "context_tokens", type=click.IntRange(min=1), help="tokens of context")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@setting_options
def fit(
    source: str | None,
    context_tokens: int | None,
    as_json: bool,
    config_file: Path | None,
    **arguments: Any,
) -> None:
    """Tell whether MODEL fits into this machine's memory, and how long a context with it.

    The model has to be on this machine; its weights are not read. The exit code is 1 where it
    does not fit.
    """
    settings = resolved(config_file, arguments | ({"model": source} if source else {})).settings
    try:
        info = _foreseen(settings)
    except RequestError as error:
        raise click.ClickException(error.info.message) from None
    from headrace.actors.machine import this_machine
    from headrace.actors.provision import memory_bytes
    from headrace.http.fit import Asked, body, table

    context = context_tokens or info.context_window
    chunk_tokens = settings.prefill_chunk_tokens
    asked = Asked(this_machine(), info, context, memory_bytes(settings), chunk_tokens)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(body(asked))))
    else:
        for name, value in table(asked):
            click.echo(f"{name + ':':17}{value}")
    sys.exit(not asked.on_this_machine().fits)


def _foreseen(settings: Settings) -> ModelInfo:
    """What a load of the model would find. Raises `RequestError`."""
    from headrace.actors.engine.load import foreseen
    from headrace.actors.library import DEFAULT_MODEL, library_at

    source = settings.model or DEFAULT_MODEL
    folder = library_at(settings.home, os.environ).find(source)
    if folder is None:
        text = f"{source!r} is not on this machine; `headrace pull` brings it here."
        raise RequestError(Code.MODEL_NOT_FOUND, text)
    return attrs.evolve(foreseen(folder.path), id=folder.id)
