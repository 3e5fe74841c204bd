"""The whole way from tokens to events: what stops see, what is counted, which tokens are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.text.answer_pipeline import AnswerPipeline
from headrace.actors.text.events import AnswerEvent
from headrace.actors.text.formats import HERMES
from headrace.actors.text.markup import TaggedMarkup
from headrace.actors.text.parser import AnswerParser
from headrace.actors.text.pipeline import PipelineOut, TextPipeline
from headrace.actors.text.reasoning import THINK, Start
from headrace.runtime.testing.answers import WholeAnswer, merged

MARKUP = TaggedMarkup(THINK, HERMES)
TOOLS: dict[str, Any] = {"f": {"properties": {"s": {"type": "string"}}}}


class ByteDecoder:
    """Token n is the n-th run of bytes; text comes when its last character is complete."""

    def __init__(self, runs: Sequence[bytes]) -> None:
        self._runs = runs
        self._held = b""

    def add(self, token: int) -> str:
        self._held += self._runs[token]
        for unfinished in range(min(4, len(self._held) + 1)):
            whole = self._held[: len(self._held) - unfinished]
            try:
                text = whole.decode()
            except UnicodeDecodeError:
                continue
            self._held = self._held[len(whole) :]
            return text
        return ""

    def flush(self) -> str:
        held, self._held = self._held, b""
        return "\ufffd" if held else ""


def runs_of(*words: str) -> list[bytes]:
    return [word.encode() for word in words]


def parser(start: Start = "before") -> AnswerParser:
    return AnswerParser(MARKUP, TOOLS, start)


def run(
    pipeline: AnswerPipeline | TextPipeline, count: int, *, cut: bool = False
) -> list[PipelineOut]:
    """What the caller would do with `count` tokens: stop when told, finish otherwise."""
    outs = list[PipelineOut]()
    for token in range(count):
        outs.append(pipeline.add(token))
        if outs[-1].stopped:
            return outs
    return [*outs, pipeline.finish(cut=cut)]


def events(outs: list[PipelineOut]) -> list[AnswerEvent]:
    return merged(event for out in outs for event in out.events)


def text(outs: list[PipelineOut]) -> str:
    return "".join(out.text for out in outs)


def test_a_stop_in_reasoning_or_markup_is_not_seen_g8() -> None:
    words = ["<think>STOP", "</think>", "go ", '<tool_call>{"name": "f", "arguments": ']
    words += ['{"s": "STOP"}}', "</tool_call>", "on ", "ST", "OP", " never"]
    pipeline = AnswerPipeline(ByteDecoder(runs_of(*words)), ["STOP"], parser())
    outs = run(pipeline, len(words))
    answer = WholeAnswer.of(events(outs))
    assert (answer.content, answer.reasoning) == ("go on ", "STOP")
    assert answer.calls[0].arguments == '{"s": "STOP"}'
    assert (pipeline.matched_stop, len(outs)) == ("STOP", 9)


def test_a_stop_does_not_reach_across_a_call() -> None:
    words = ["ST", '<tool_call>{"name": "f"}</tool_call>', "OP"]
    pipeline = AnswerPipeline(ByteDecoder(runs_of(*words)), ["STOP"], parser())
    outs = run(pipeline, len(words))
    assert (text(outs), pipeline.matched_stop) == ("STOP", None)
    assert [out.text for out in outs] == ["", "ST", "OP", ""]


def test_nothing_follows_a_stop_in_the_same_token() -> None:
    words = ['a STOP b <tool_call>{"name": "f"}</tool_call>']
    outs = run(AnswerPipeline(ByteDecoder(runs_of(*words)), ["STOP"], parser()), 1)
    assert (events(outs), outs[-1].stopped) == (events(outs)[:1], True)
    assert text(outs) == "a "


@pytest.mark.parametrize(
    ("words", "start", "count"),
    [
        (["a", "b", "c"], "inside", 3),
        (["<think>", "a", "b"], "before", 3),
        (["<", "think>", "a", "</", "think>", "\n\n", "c"], "before", 6),
        (["a", "</think>", "b"], "inside", 2),
        (["a", "b"], "after", 0),
        (["no ", "block"], "before", 0),
    ],
)
def test_reasoning_is_counted_in_tokens_h11(words: list[str], start: Start, count: int) -> None:
    pipeline = AnswerPipeline(ByteDecoder(runs_of(*words)), (), parser(start))
    run(pipeline, len(words), cut=True)
    assert pipeline.reasoning_tokens == count


def test_tokens_of_part_of_a_character_count_too_h11() -> None:
    runs = [b"\xf0", b"\x9f", b"\x98\x80", b"</think>", b"x"]
    pipeline = AnswerPipeline(ByteDecoder(runs), (), parser("inside"))
    assert [(pipeline.add(n), pipeline.reasoning_tokens)[1] for n in range(5)] == [1, 2, 3, 4, 4]


def test_the_caller_knows_when_the_block_is_open() -> None:
    pipeline = AnswerPipeline(ByteDecoder(runs_of("<think>", "a", "</think>")), (), parser())
    assert not pipeline.in_reasoning
    assert [(pipeline.add(n), pipeline.in_reasoning)[1] for n in range(3)] == [True, True, False]


# ---- which tokens the visible text is made of ----------------------------------------------


def shown_bytes(outs: list[PipelineOut], runs: Sequence[bytes]) -> bytes:
    shares = [share for out in outs for share in out.shares]
    assert [share.index for share in shares] == sorted({share.index for share in shares})
    return b"".join(share.bytes for share in shares)


@st.composite
def byte_runs(draw: st.DrawFn) -> list[bytes]:
    """An answer with visible, hidden and stopped text, cut into tokens at any byte."""
    parts = ["<think>", "</think>", "é", "👩‍👧", "STOP", "ST", "a", " ", "\n", "<", "日本"]
    parts.append('<tool_call>{"name": "f", "arguments": {}}</tool_call>')
    data = "".join(draw(st.lists(st.sampled_from(parts), max_size=12))).encode()
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=20)))
    runs = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    return [run for run in runs if run]


@given(byte_runs(), st.sampled_from(["before", "inside", "after"]), st.booleans())
def test_the_bytes_of_the_shares_are_the_visible_text(
    runs: list[bytes], start: Start, cut: bool
) -> None:
    pipeline = AnswerPipeline(
        ByteDecoder(runs), ["STOP"], parser(start), token_bytes=runs.__getitem__
    )
    outs = run(pipeline, len(runs), cut=cut)
    assert shown_bytes(outs, runs).decode() == text(outs)


@given(byte_runs())
def test_a_share_travels_with_the_output_that_completes_its_text(runs: list[bytes]) -> None:
    pipeline = AnswerPipeline(ByteDecoder(runs), ["STOP"], token_bytes=runs.__getitem__)
    outs = run(pipeline, len(runs))
    for so_far in range(len(outs)):
        early = shown_bytes(outs[: so_far + 1], runs)
        shown = text(outs[: so_far + 1]).encode()
        assert shown.startswith(early)
        # What is missing belongs to one token whose text goes on.
        missing = len(shown) - len(early)
        assert missing <= max(map(len, runs), default=0)


@given(byte_runs())
def test_without_markup_both_pipelines_agree(runs: list[bytes]) -> None:
    plain = TextPipeline(ByteDecoder(runs), ["STOP"])
    full = AnswerPipeline(ByteDecoder(runs), ["STOP"], token_bytes=runs.__getitem__)
    expected = run(plain, len(runs))
    outs = run(full, len(runs))
    assert [(out.text, out.stopped) for out in outs] == [
        (out.text, out.stopped) for out in expected
    ]
    assert full.matched_stop == plain.matched_stop


def test_an_unfinished_character_at_the_end_is_one_replacement_character_g6() -> None:
    runs = [b"a", b"\xf0", b"\x9f"]
    pipeline = AnswerPipeline(ByteDecoder(runs), (), parser(), token_bytes=runs.__getitem__)
    outs = run(pipeline, 3, cut=True)
    assert text(outs) == "a\ufffd"
    assert [share.index for share in outs[-1].shares] == [1, 2]
