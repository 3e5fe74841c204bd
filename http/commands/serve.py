"""`headrace serve`: fetch what is missing, and serve until a signal.

Where nothing is missing it listens before it imports the server, which takes most of a start.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from headrace.http.commands.completing import models
from headrace.http.options import resolved, setting_options
from headrace.http.sockets import Sockets, bound, listen_at
from headrace.runtime.errors import RequestError, SettingError
from headrace.runtime.imports import kept_for_good

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
    with _failures_told(), ExitStack() as stack:
        with _told_where(settings):
            sockets = stack.enter_context(bound(settings.host, settings.port))
        _prepare(settings, sockets)
        _serve(settings, sockets)


def _prepare(settings: Settings, sockets: Sockets) -> None:
    """Import the server while clients may connect already, and find what would stop a start: that
    is better told before a model is fetched."""
    from headrace.actors.library import are_here
    from headrace.http.keys import keys_of

    keys_of(settings)
    # A fetch may take long, and who connects would wait for all of it without a word.
    if are_here(settings, os.environ):
        with _told_where(settings):
            listen_at(sockets)
    with kept_for_good():
        import headrace.http.serve  # noqa: F401
        from headrace.http.logs import configure
        from headrace.http.telemetry import check_telemetry
        from headrace.http.tls import tls_context
    tls_context(settings)
    check_telemetry(settings)
    configure(settings.log_level, as_json=settings.log_json)


class Termination:
    """What SIGTERM does before the server listens for it, and after. It ends a fetch with its
    clean-up; when the server has ended already it changes nothing, the exit code included."""

    def __init__(self) -> None:
        self.expected = False
        signal.signal(signal.SIGTERM, self._end)

    def ignore(self) -> None:
        """While the interpreter ends: it takes its own handlers back, and would die of another."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def _end(self, number: int, frame: FrameType | None) -> None:
        if not self.expected:
            sys.exit(128 + number)


def serve_at(
    sockets: Sockets, settings: Settings, provision: Provision, termination: Termination
) -> None:
    """Serve until a signal, findable by other commands."""
    import trio

    from headrace.http.opening import for_a_server
    from headrace.http.run_file import announced
    from headrace.http.serve import serve_until_signal

    @contextmanager
    def announce(addresses: tuple[str, ...]) -> Iterator[None]:
        with announced(settings.home, addresses):
            yield
        termination.expected = True

    run = partial(serve_until_signal, sockets=sockets, announce=announce)
    trio.run(run, for_a_server(settings), provision)
    termination.ignore()


def _serve(settings: Settings, sockets: Sockets) -> None:
    from rich.console import Console

    from headrace.actors.library import shown_progress
    from headrace.actors.provision import provide

    termination = Termination()
    with shown_progress(Console(stderr=True), logger.info) as report:
        provision = provide(settings, os.environ, report)
    with _told_where(settings):
        listen_at(sockets)
    serve_at(sockets, settings, provision, termination)


@contextmanager
def _told_where(settings: Settings) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f"{settings.host} port {settings.port}"
        raise click.ClickException(f"cannot listen on {where}: {error.strerror}") from None


@contextmanager
def _failures_told() -> Iterator[None]:
    """What stops a start is told in a line, not by a traceback."""
    try:
        yield
    except Exception as error:
        match _only_cause(error):
            case SettingError() as cause:
                raise click.UsageError(str(cause)) from None
            case RequestError(info=info):
                raise click.ClickException(info.message) from None
        raise


def _only_cause(error: BaseException) -> BaseException:
    """The one exception inside groups of one; the group itself where there are several."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
