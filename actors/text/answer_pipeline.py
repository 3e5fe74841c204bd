"""One row's tokens into events, for rows with markup or with log-probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headrace.actors.text.events import AnswerEvent, Text
from headrace.actors.text.parser import AnswerParser
from headrace.actors.text.pipeline import PipelineOut
from headrace.actors.text.shares import ShareFinder, TokenLedger, TokenShare
from headrace.actors.text.visible import StopFilter
from headrace.runtime.ports import Decoder


class AnswerPipeline:
    """Decoder, reasoning and calls, then stop strings on what is visible of it.

    Used like a `TextPipeline`. The decoder must show the special tokens that are markup. With
    `token_bytes`, the bytes of a token id, the outputs say which tokens the text is made of.
    """

    def __init__(
        self,
        decoder: Decoder,
        stops: Sequence[str] = (),
        parser: AnswerParser | None = None,
        *,
        token_bytes: Callable[[int], bytes] | None = None,
    ) -> None:
        self._decoder = decoder
        self._parser = parser
        self._filter = StopFilter(stops) if any(stops) else None
        self._ledger = TokenLedger()
        self._token_bytes = token_bytes
        self._shares = ShareFinder()

    @property
    def matched_stop(self) -> str | None:
        return None if self._filter is None else self._filter.matched

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
        if self._token_bytes is not None:
            self._shares.add(self._token_bytes(token), text)
        if not text:
            return PipelineOut("")
        events = self._parsed(text, at)
        return self._out(events if self._filter is None else [*self._filter.feed(events)])

    def finish(self, *, cut: bool = False) -> PipelineOut:
        """The rest, once, when the row ends other than by a stop string. `cut`: the cap ended the
        row, or the server did; then what may be the beginning of markup is left out."""
        rest = self._decoder.flush()
        self._shares.add_text(rest)
        events = self._parsed(rest, self._ledger.length) if rest else []
        if self._parser is not None:
            events = [*events, *self._parser.finish(cut=cut)]
        if self._filter is not None:
            events = [*self._filter.feed(events), *self._filter.flush()]
        return self._out(events, last=True)

    @property
    def _blocks(self) -> Sequence[tuple[int, int | None]]:
        return () if self._parser is None else self._parser.blocks

    def _parsed(self, text: str, at: int) -> list[AnswerEvent]:
        return [Text(text, at)] if self._parser is None else self._parser.feed(text)

    def _out(self, events: Sequence[AnswerEvent], *, last: bool = False) -> PipelineOut:
        stopped = self.matched_stop is not None
        text = "".join([event.text for event in events if isinstance(event, Text)])
        shares = self._attributed(events, last=last or stopped)
        return PipelineOut(text, stopped, tuple(events), shares)

    def _attributed(self, events: Iterable[AnswerEvent], *, last: bool) -> tuple[TokenShare, ...]:
        if self._token_bytes is None:
            return ()
        for event in events:
            if isinstance(event, Text):
                self._shares.show(event.at, event.text)
        return self._shares.take(last=last)
