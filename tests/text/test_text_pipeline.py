"""Tokens to visible text, through a decoder that knows every token's text."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.text.pipeline import TextPipeline


class WordDecoder:
    """Token n is the n-th word; the last piece is held until the next token or the end."""

    def __init__(self, words: Sequence[str], *, held: bool = False) -> None:
        self._words, self._holds, self._held = words, held, ""

    def add(self, token: int) -> str:
        text, self._held = self._held, self._words[token]
        return text if self._holds else text + self.flush()

    def flush(self) -> str:
        text, self._held = self._held, ""
        return text


def run(pipeline: TextPipeline, count: int) -> str:
    """What the caller would do with `count` tokens: stop when told, finish otherwise."""
    shown = ""
    for token in range(count):
        out = pipeline.add(token)
        shown += out.text
        if out.stopped:
            return shown
    return shown + pipeline.finish().text


@given(st.lists(st.text("ab. ", max_size=3), max_size=12), st.booleans())
def test_without_stops_all_text_passes(words: list[str], held: bool) -> None:
    pipeline = TextPipeline(WordDecoder(words, held=held))
    assert run(pipeline, len(words)) == "".join(words)
    assert pipeline.matched_stop is None


@given(st.lists(st.text("ab. ", max_size=3), max_size=12), st.booleans())
def test_a_stop_ends_the_text_also_when_the_decoder_held_it(words: list[str], held: bool) -> None:
    pipeline = TextPipeline(WordDecoder(words, held=held), ["b."])
    before, stop, _ = "".join(words).partition("b.")
    assert run(pipeline, len(words)) == before
    assert pipeline.matched_stop == (stop or None)


def test_the_token_that_completes_a_stop_says_so() -> None:
    pipeline = TextPipeline(WordDecoder(["one", " tw", "o thr"]), [" two"])
    outs = [pipeline.add(token) for token in range(3)]
    assert [(out.text, out.stopped) for out in outs] == [("one", False), ("", False), ("", True)]


def test_the_rest_may_complete_a_stop() -> None:
    pipeline = TextPipeline(WordDecoder(["a", "b"], held=True), ["b"])
    assert [pipeline.add(0).text, pipeline.add(1).text] == ["", "a"]
    assert pipeline.finish().stopped
