"""One row's tokens into events, for rows with markup or with log-probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.actors.text.events import AnswerEvent, Text
from headrace.actors.text.parser import AnswerParser
from headrace.actors.text.pipeline import PipelineOut
from headrace.actors.text.shares import ShareFinder, TokenLedger, TokenShare
from headrace.actors.text.visible import StopFilter
from headrace.runtime.ports import Decoder


class AnswerPipeline:
    """Decoder, reasoning and calls, then stop strings on what is visible of it.

    Used like a `TextPipeline`. `attribute`: tell which tokens the visible text is made of.
    """

    def __init__(
        self,
        decoder: Decoder,
        stops: Sequence[str] = (),
        parser: AnswerParser | None = None,
        *,
        attribute: bool = False,
    ) -> None:
        self._decoder = decoder
        self._parser = parser
        self._filter = StopFilter(stops)
        self._ledger = TokenLedger()
        self._shares = ShareFinder() if attribute else None

    @property
    def matched_stop(self) -> str | None:
        return self._filter.matched

    @property
    def in_reasoning(self) -> bool:
        """The hidden block is open: its end may be asked for."""
        return bool(self._blocks) and self._blocks[-1][1] is None

    @property
    def reasoning_tokens(self) -> int:
        """Tokens of hidden blocks so far, their marks included."""
        return self._ledger.count(self._blocks)

    def add(self, token: int) -> PipelineOut:
        """What this token made certain."""
        at, text = self._ledger.length, self._decoder.add(token)
        self._ledger.add(text)
        if self._shares is not None:
            self._shares.add(text)
        return self._out(self._filter.feed(self._parsed(text, at)), last=False)

    def finish(self, *, cut: bool = False) -> PipelineOut:
        """The rest, once, when the row ends other than by a stop string. `cut`: the cap ended the
        row, or the server did; then what may be the beginning of markup is left out."""
        events = list(self._parsed(self._decoder.flush(), self._ledger.length))
        if self._parser is not None:
            events += self._parser.finish(cut=cut)
        shown = [*self._filter.feed(events), *self._filter.flush()]
        return self._out(shown, last=True)

    @property
    def _blocks(self) -> Sequence[tuple[int, int | None]]:
        return () if self._parser is None else self._parser.blocks

    def _parsed(self, text: str, at: int) -> Sequence[AnswerEvent]:
        if not text:
            return ()
        return [Text(text, at)] if self._parser is None else self._parser.feed(text)

    def _out(self, events: Iterable[AnswerEvent], *, last: bool) -> PipelineOut:
        shown = tuple(events)
        stopped = self._filter.matched is not None
        text = "".join(event.text for event in shown if isinstance(event, Text))
        return PipelineOut(text, stopped, shown, self._attributed(shown, last=last or stopped))

    def _attributed(self, events: Iterable[AnswerEvent], *, last: bool) -> tuple[TokenShare, ...]:
        if self._shares is None:
            return ()
        for event in events:
            if isinstance(event, Text):
                self._shares.show(event.at, event.at + len(event.text))
        return self._shares.take(last=last)
