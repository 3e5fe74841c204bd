"""One row's tokens into the text that may be shown."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from headrace.actors.text.stops import StopMatcher
from headrace.runtime.ports import Decoder


@attrs.frozen
class PipelineOut:
    """What one token brought. `stopped`: a stop string is complete, the row is to be ended."""

    text: str
    stopped: bool = False


_NOTHING = PipelineOut("")


class TextPipeline:
    """Decoder, then stop strings. End tokens never come in here; the caller sees them first."""

    __slots__ = ("_decoder", "_matcher")

    def __init__(self, decoder: Decoder, stops: Sequence[str] = ()) -> None:
        self._decoder = decoder
        self._matcher = StopMatcher(stops) if any(stops) else None

    @property
    def matched_stop(self) -> str | None:
        return None if self._matcher is None else self._matcher.matched

    def add(self, token: int) -> PipelineOut:
        """Text that this token made visible, without any tail that may begin a stop."""
        text = self._decoder.add(token)
        if not text:
            return _NOTHING
        if self._matcher is None:
            return PipelineOut(text)
        return PipelineOut(self._matcher.feed(text), self._matcher.matched is not None)

    def finish(self) -> PipelineOut:
        """The rest, once, when the row ends other than by a stop string: what decoder and
        matcher still held. That rest may complete a stop itself."""
        text = self._decoder.flush()
        if self._matcher is None:
            return PipelineOut(text)
        shown = self._matcher.feed(text) + self._matcher.flush()
        return PipelineOut(shown, self._matcher.matched is not None)
