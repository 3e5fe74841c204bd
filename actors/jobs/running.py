"""One job while it runs: a scope, whose end is always told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import trio

from headrace.actors.jobs.ending import CANCELLED_BY_CLIENT, CLOSING, Ending, failed
from headrace.actors.jobs.job import Job
from headrace.actors.jobs.kind import JobContext, JobKind
from headrace.runtime.reply import Reply


@attrs.define(eq=False)
class Run:
    """`asked` wait for its end; `ending` is how it ends where its scope is cancelled."""

    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    asked: list[Reply[Job | None]] = attrs.field(factory=list)
    ending: Ending = CANCELLED_BY_CLIENT

    def stop(self) -> None:
        """The server stops."""
        if not self.scope.cancel_called:
            self.ending = CLOSING
        self.scope.cancel("the server stops")


async def run_job(
    kind: JobKind[Any],
    context: JobContext[Any],
    run: Run,
    crashed: Callable[[Exception], None],
    ended: Callable[[Ending], None],
) -> None:
    """Nothing is raised but a cancellation from outside. `crashed` is told of what failed."""
    ending = CLOSING
    try:
        with run.scope:
            ending = Ending("done", await kind.run(context))
        if run.scope.cancelled_caught:
            ending = run.ending
    except Exception as error:
        crashed(error)
        ending = failed(error)
    finally:
        context.close()
        ended(ending)
