"""One row's tokens into what its client may see."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from headrace.actors.text.events import AnswerEvent
from headrace.actors.text.shares import TokenShare
from headrace.actors.text.stops import StopMatcher
from headrace.runtime.ports import Decoder


@attrs.frozen
class PipelineOut:
    """What one token brought.

    `text` is the visible text, `stopped` says that a stop string is complete and the row is to be
    ended. Rows with markup have `events`, with the text among them; rows that attribute their
    tokens have `shares`, each with the output that completes the token's text.
    """

    text: str
    stopped: bool = False
    events: tuple[AnswerEvent, ...] = ()
    shares: tuple[TokenShare, ...] = ()


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

    @property
    def in_reasoning(self) -> bool:
        return False

    @property
    def reasoning_tokens(self) -> int:
        return 0

    def add(self, token: int) -> PipelineOut:
        """Text that this token made visible, without any tail that may begin a stop."""
        text = self._decoder.add(token)
        if not text:
            return _NOTHING
        if self._matcher is None:
            return PipelineOut(text)
        return PipelineOut(self._matcher.feed(text), self._matcher.matched is not None)

    def finish(self, *, cut: bool = False) -> PipelineOut:
        """The rest, once, when the row ends other than by a stop string: what was still held.
        That rest may complete a stop itself. `cut`: the cap ended the row, or the server did."""
        text = self._decoder.flush()
        if self._matcher is None:
            return PipelineOut(text)
        shown = self._matcher.feed(text) + self._matcher.flush()
        return PipelineOut(shown, self._matcher.matched is not None)
