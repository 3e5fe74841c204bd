"""How long a worker may be silent before it counts as dead. Pure.

A worker's loop beats each second whatever its model computes, since MLX lets go of the
interpreter's lock while it evaluates. Silence means that the process is stopped, or that some
call keeps the lock.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

# Of a worker: until its first beat, until its model is ready, and from then on.
Phase: TypeAlias = Literal["starting", "loading", "ready"]

# The loop beats each second; a machine that is very busy may miss a few.
BEAT_MARGIN_SECONDS = (2.0, 5.0)


@attrs.frozen
class Patience:
    """Seconds of silence that each phase of a worker may show.

    `start_seconds` is for an interpreter that starts on a busy machine. A load may keep the lock
    for seconds, in libraries that read weights and vocabularies, and `load_seconds` is for that.
    """

    start_seconds: float = 45.0
    load_seconds: float = 30.0
    # The most that a long watchdog's limit may make of it once the model is ready.
    most_seconds: float = 30.0

    def silence_seconds(self, phase: Phase, step_seconds: float) -> float:
        """After so long without a word the worker is dead. `step_seconds` is its watchdog's limit.

        Longer than the worker's own watchdog takes, which ends a hung step with a reason. Whoever
        sets a short limit wants to know soon, so the margin shrinks with it.
        """
        match phase:
            case "starting":
                return self.start_seconds
            case "loading":
                return self.load_seconds
            case "ready":
                least, most = BEAT_MARGIN_SECONDS
                margin_seconds = min(max(step_seconds, least), most)
                return min(step_seconds + margin_seconds, self.most_seconds)
