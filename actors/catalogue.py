"""Models that came onto this machine after the start: looked for when somebody lists the models."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

import attrs
import trio

from headrace.actors.spec import ModelSpec
from headrace.actors.troubles import described
from headrace.runtime.trace import Trace

# A list that is read again and again shall not read the disk each time.
AGAIN_SECONDS = 5.0
# A disk that has gone away may keep a look for ever; what is known is listed all the same.
LOOK_SECONDS = 2.0


@attrs.frozen
class Shelf:
    """Models of this machine, and the ids of models by where they are."""

    models: tuple[ModelSpec, ...] = ()
    places: Mapping[str, str] = attrs.field(factory=dict)


# Blocks. It is given the ids that are known and answers what else there is.
Look: TypeAlias = Callable[[Collection[str]], Shelf]


class Catalogue:
    """Looks for models beside those that are known: not too often, and not for long."""

    def __init__(
        self,
        look: Look | None,
        trace: Trace,
        *,
        again_seconds: float = AGAIN_SECONDS,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._look = look
        self._again_seconds = again_seconds
        self._look_seconds = look_seconds
        self._trace = trace
        self._looked_at = -math.inf
        self._limiter = trio.CapacityLimiter(1)

    async def look(self, known: Collection[str]) -> Shelf:
        """What there is beside the known ids. Empty where that was just looked for, and where the
        disk fails or is slow: that is in the trace."""
        await trio.lowlevel.checkpoint()
        now = trio.current_time()
        if self._look is None or now < self._looked_at + self._again_seconds:
            return Shelf()
        self._looked_at = now
        reason = "the disk did not answer in time"
        try:
            with trio.move_on_after(self._look_seconds):
                return await trio.to_thread.run_sync(
                    self._look, known, abandon_on_cancel=True, limiter=self._limiter
                )
        except Exception as error:
            reason = described(error)
        self._trace.emit("library.failed", reason=reason)
        return Shelf()
