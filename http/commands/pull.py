"""`headrace pull`: bring a model to this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.http.commands.remote import home_of
from headrace.http.commands.shown import size
from headrace.runtime.errors import RequestError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from headrace.actors.library import Amount, Report

EXAMPLE = """\b
Examples:
  headrace pull                                        # the default model
  headrace pull mlx-community/Qwen3-0.6B-4bit          # from the hub
  headrace pull ~/models/some-model.gguf               # converted into the home
"""


@click.command(epilog=EXAMPLE)
@click.argument("model", metavar="[MODEL]", required=False)
@click.option("--home", type=click.Path(path_type=Path), help="folder of models [the setting]")
def pull(model: str | None, home: Path | None) -> None:
    """Bring MODEL to this machine: a hub id, a name known here, a GGUF file or a folder.

    What is there already is not fetched again, and an interrupted fetch leaves nothing that looks
    like a model. A folder stays where it is; it is checked and can be served by its path. The
    progress goes to standard error; the id, the size and the folder go to standard output.
    """
    from headrace.actors.library import DEFAULT_MODEL, library_at

    library = library_at(home_of(home), os.environ)
    try:
        with shown_fetch() as (report, amount):
            folder = library.resolve(model or DEFAULT_MODEL, report, amount)
    except RequestError as error:
        raise click.ClickException(error.info.message) from None
    click.echo(f"{folder.id}  {size(folder.size_bytes)}  {folder.path}")


@contextmanager
def shown_fetch() -> Iterator[tuple[Report, Amount]]:
    """Where a library tells what it does: bars with bytes on a terminal, else lines."""
    from rich.console import Console

    from headrace.actors.library import no_amount, shown_progress

    console = Console(stderr=True)
    if not console.is_terminal:
        with shown_progress(console, lambda line: click.echo(line, err=True)) as report:
            yield report, no_amount
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[much]}")
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        bars = Bars(progress)
        yield bars.report, bars.amount


class Bars:
    """A bar for each piece of work; the ones before the newest are through."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._doing = ""
        self._task: TaskID | None = None

    def report(self, doing: str, fraction: float | None) -> None:
        if self._task is None or doing != self._doing:
            if self._task is not None:
                self._progress.update(self._task, total=1.0, completed=1.0)
            self._doing = doing
            self._task = self._progress.add_task(doing, total=None, much="")
        if fraction is not None:
            self._update(fraction, f"{fraction:.0%}")

    def amount(self, done_bytes: int, total_bytes: int) -> None:
        self._update(done_bytes / total_bytes, f"{size(done_bytes)} of {size(total_bytes)}")

    def _update(self, fraction: float, much: str) -> None:
        if self._task is not None:
            self._progress.update(self._task, total=1.0, completed=fraction, much=much)
