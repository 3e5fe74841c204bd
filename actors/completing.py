"""Task completions: the runtime's own client, for work that no outside client has asked for.

A call is one scope. Its rows are request scopes inside it, so cancelling the call, or the failure
of one row, ends all of them, and none is left in a batch when the call returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from headrace.actors.generation import Generation
from headrace.actors.together import Part, Together
from headrace.runtime.contracts import (
    Delta,
    Failed,
    Finished,
    FinishReason,
    InferenceRequest,
    Usage,
)
from headrace.runtime.errors import ErrorInfo, RequestError

if TYPE_CHECKING:
    from headrace.actors.runtime import Runtime

# A failure is shown in a job's row and in logs, not to somebody who can scroll.
MOST_CHARACTERS = 200


@attrs.frozen
class Completion:
    """What one row said. Its reasoning is left out."""

    text: str
    reason: FinishReason
    usage: Usage


class Completions:
    """`width` rows of one call run at a time at most; None: as many as a model may generate. Rows
    of all other requests pass those that wait."""

    def __init__(self, runtime: Runtime, *, width: int | None = None) -> None:
        self._runtime = runtime
        self._width = runtime.settings.max_rows if width is None else width

    async def complete(self, row: InferenceRequest) -> Completion:
        """As `complete_batch`, for one row."""
        (completion,) = await self.complete_batch([row])
        return completion

    async def complete_batch(self, rows: Sequence[InferenceRequest]) -> list[Completion]:
        """What each row says, in the order of the rows; each asks for one answer (`n` is 1).

        All rows share one place in the queue, and all are checked before one runs. No rows cost
        nothing. Raises `RequestError`, short: the first failure of a row is that of the call, and
        nothing is tried again.
        """
        if any(row.n != 1 for row in rows):
            raise ValueError("a row of a task asks for one answer")
        if not rows:
            await trio.lowlevel.checkpoint()
            return []
        call = _Call(self._runtime)
        together = Together(len(rows), self._width, low=True)
        async with trio.open_nursery() as nursery:
            for number, (row, part) in enumerate(zip(rows, together.parts, strict=True)):
                nursery.start_soon(call.take, number, row, part, nursery, name=f"task {row.id}")
        if call.failure is not None:
            raise RequestError.of(shortened(call.failure))
        return [call.said[number] for number in range(len(rows))]


@attrs.define
class _Call:
    """What is known of the rows of one call so far."""

    runtime: Runtime
    said: dict[int, Completion] = attrs.field(factory=dict)
    failure: ErrorInfo | None = None

    async def take(
        self, number: int, row: InferenceRequest, part: Part, others: trio.Nursery
    ) -> None:
        """One row to its end; one that fails ends the others."""
        async with self.runtime.request(row, part) as generation:
            answer = await _read(generation)
        if isinstance(answer, Completion):
            self.said[number] = answer
            return
        self.failure = self.failure or answer
        others.cancel_scope.cancel()


async def _read(generation: Generation) -> Completion | ErrorInfo:
    """A request to its end. It is always one of the two: every stream has an end."""
    pieces: list[str] = []
    while True:
        match await generation.receive():
            case Delta(text):
                pieces.append(text)
            case Finished(reason, usage):
                return Completion("".join(pieces), reason, usage)
            case Failed(error):
                return error


def shortened(error: ErrorInfo) -> ErrorInfo:
    """Without what a client needs to try again: nobody does."""
    message = error.message
    if len(message) > MOST_CHARACTERS:
        message = message[: MOST_CHARACTERS - 1] + "…"
    return ErrorInfo(error.code, message, error.param)
