"""The command line: `headrace serve`, `doctor` and `fit`. Every setting is an option of its own.

What a command needs is imported when it runs, so that `headrace --help` answers at once.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

import attrs
import click
import msgspec

from headrace.http.options import given, setting_options
from headrace.runtime.config import config_file, resolve
from headrace.runtime.contracts import ModelInfo
from headrace.runtime.errors import Code, RequestError, SettingError
from headrace.runtime.settings import Settings

logger = logging.getLogger(__name__)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="headrace", prog_name="headrace")
def main() -> None:
    """An inference server for MLX models in which a request is a scope."""


@main.command()
@click.argument("source", metavar="[MODEL]", required=False)
@setting_options
def serve(source: str | None, config_file: Path | None, **arguments: Any) -> None:
    """Serve MODEL, a folder or a hub id; without one, the default model.

    The first SIGTERM or Ctrl-C lets requests finish within --shutdown-timeout-s; the second ends
    them at once.
    """
    settings = _settings(config_file, given(arguments | ({"model": source} if source else {})))
    from headrace.http.logs import configure
    from headrace.http.opening import for_a_server

    configure(settings.log_level, as_json=settings.log_json)
    _serve(for_a_server(settings))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@click.option("--home", type=click.Path(path_type=Path), help="folder of models")
def doctor(as_json: bool, home: Path | None) -> None:
    """Tell what this machine offers a model, and what would make it faster."""
    from headrace.actors.engine.blas import use_fast_blas
    from headrace.actors.engine.doctor import examine
    from headrace.actors.library import DEFAULT_MODEL, library_at

    settings = _settings(None, {"home": home} if home else {})
    ready = library_at(settings.home, os.environ).find(DEFAULT_MODEL) is not None
    findings = examine(settings.home, use_fast_blas(settings.blas_threads), ready)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(findings)))
    else:
        for finding in findings:
            click.echo(f"{finding.severity:8}{finding.topic}: {finding.text}")
            if finding.advice:
                click.echo(f"{'':8}{finding.advice}")
    sys.exit(any(finding.severity == "problem" for finding in findings))


@main.command()
@click.argument("source", metavar="[MODEL]", required=False)
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
    settings = _settings(config_file, given(arguments | ({"model": source} if source else {})))
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
        text = f"{source!r} is not on this machine; `headrace serve` brings it here."
        raise RequestError(Code.MODEL_NOT_FOUND, text)
    return attrs.evolve(foreseen(folder.path), id=folder.id)


def _serve(settings: Settings) -> None:
    import trio
    from rich.console import Console

    from headrace.actors.library import shown_progress
    from headrace.actors.provision import provide
    from headrace.http.serve import serve_until_signal

    try:
        with shown_progress(Console(stderr=True), logger.info) as report:
            provision = provide(settings, os.environ, report)
        trio.run(serve_until_signal, settings, provision)
    except RequestError as error:
        raise click.ClickException(error.info.message) from None
    except BaseExceptionGroup as group:
        cause = _only_cause(group)
        if isinstance(cause, OSError):
            where = f"{settings.host} port {settings.port}"
            raise click.ClickException(f"cannot listen on {where}: {cause.strerror}") from None
        raise


def _settings(file: Path | None, arguments: dict[str, Any]) -> Settings:
    try:
        return resolve(
            file=config_file(file, os.environ), environ=os.environ, arguments=arguments
        ).settings
    except SettingError as error:
        raise click.UsageError(str(error)) from None


def _only_cause(error: BaseException) -> BaseException:
    """The one exception inside groups of one; the group itself where there are several."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
