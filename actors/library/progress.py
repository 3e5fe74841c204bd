"""Long pieces of work shown to a person: a bar on a terminal, lines of text elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.actors.library.library import Report

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

_LINE_EVERY = 0.25


@contextlib.contextmanager
def shown_progress(console: Console, say: Callable[[str], None]) -> Iterator[Report]:
    """A `Report` that draws on `console` if that is a terminal, else calls `say` with lines.

    Each piece of work gets a line at its start and one at every quarter.
    """
    if not console.is_terminal:
        yield _lines(say)
        return
    with contextlib.ExitStack() as shown:
        yield _bars(lambda: shown.enter_context(_progress(console)))


def _progress(console: Console) -> Progress:
    # Here, since mostly there is nothing to show.
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    return Progress(*columns, TimeElapsedColumn(), console=console)


def _bars(opened: Callable[[], Progress]) -> Report:
    bars: Progress | None = None
    tasks: dict[str, TaskID] = {}

    def report(doing: str, fraction: float | None) -> None:
        nonlocal bars
        bars = bars or opened()
        if doing not in tasks:
            # A new piece of work begins, so the ones before it are through.
            for task in tasks.values():
                bars.update(task, total=1.0, completed=1.0)
            tasks[doing] = bars.add_task(doing, total=None)
        if fraction is not None:
            bars.update(tasks[doing], total=1.0, completed=fraction)

    return report


def _lines(say: Callable[[str], None]) -> Report:
    said: dict[str, float] = {}

    def report(doing: str, fraction: float | None) -> None:
        if doing not in said:
            said[doing] = 0.0
            say(doing)
        elif fraction is not None and fraction >= said[doing] + _LINE_EVERY:
            said[doing] = fraction - fraction % _LINE_EVERY
            say(f"{doing}: {said[doing]:.0%}")

    return report
