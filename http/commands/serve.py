"""`headrace serve`: fetch what is missing, then listen until a signal."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from headrace.http.commands.completing import models
from headrace.http.options import resolved, setting_options
from headrace.runtime.errors import RequestError, SettingError

if TYPE_CHECKING:
    from headrace.actors.provision import Provision
    from headrace.runtime.settings import Settings

logger = logging.getLogger(__name__)

EXAMPLE = """\b
Examples:
  headrace serve
  headrace serve path/to/an/mlx-lm/folder --port 9000 --api-keys-file ~/keys
"""


@click.command(epilog=EXAMPLE)
@click.argument("source", metavar="[MODEL]", required=False, shell_complete=models)
@setting_options
def serve(source: str | None, config_file: Path | None, **arguments: Any) -> None:
    """Serve MODEL: a folder, a GGUF file, a hub id or a name of `headrace pull`.

    Without one it is the default model. What is not on this machine is fetched first. The first
    SIGTERM or Ctrl-C lets requests finish within --shutdown-timeout-s; the second ends them at
    once. Each option has a variable (--queue-limit is HEADRACE_QUEUE_LIMIT) and a name in the
    config file (queue_limit); `headrace config` shows where each value comes from.
    """
    arguments |= {"model": source} if source else {}
    settings = resolved(config_file, arguments).settings
    with kept_for_good():
        import headrace.http.serve  # noqa: F401
        from headrace.http.keys import keys_of
        from headrace.http.logs import configure
        from headrace.http.opening import for_a_server
        from headrace.http.telemetry import check_telemetry
        from headrace.http.tls import tls_context

    try:
        # What would stop the start is better told before a model is fetched.
        keys_of(settings)
        tls_context(settings)
        check_telemetry(settings)
    except SettingError as error:
        raise click.UsageError(str(error)) from None
    configure(settings.log_level, as_json=settings.log_json)
    _serve(for_a_server(settings))


class Termination:
    """What SIGTERM does before the server listens for it, and after. It ends a fetch with its
    clean-up; when the server has ended already it changes nothing, the exit code included."""

    def __init__(self) -> None:
        self.expected = False
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        if not self.expected:
            sys.exit(128 + number)


def listen(settings: Settings, provision: Provision, termination: Termination) -> None:
    """Serve until a signal, findable by other commands."""
    import trio

    from headrace.http.run_file import announced
    from headrace.http.serve import serve_until_signal

    @contextmanager
    def announce(addresses: tuple[str, ...]) -> Iterator[None]:
        with announced(settings.home, addresses):
            yield
        termination.expected = True

    trio.run(partial(serve_until_signal, settings, provision, announce=announce))


@contextmanager
def kept_for_good() -> Iterator[None]:
    """For imports: nothing that is made within is ever garbage. Not looking for it makes a start
    a tenth faster, and no full collection, for which the loop stands still, looks at it later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _serve(settings: Settings) -> None:
    from rich.console import Console

    from headrace.actors.library import shown_progress
    from headrace.actors.provision import provide

    termination = Termination()
    try:
        with shown_progress(Console(stderr=True), logger.info) as report:
            provision = provide(settings, os.environ, report)
        listen(settings, provision, termination)
    except RequestError as error:
        raise click.ClickException(error.info.message) from None
    except BaseExceptionGroup as group:
        cause = _only_cause(group)
        if isinstance(cause, OSError):
            where = f"{settings.host} port {settings.port}"
            raise click.ClickException(f"cannot listen on {where}: {cause.strerror}") from None
        raise


def _only_cause(error: BaseException) -> BaseException:
    """The one exception inside groups of one; the group itself where there are several."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
