"""The hidden block: where it begins, where it ends, and what is left alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.text import formats
from headrace.actors.text.harmony import HarmonyMarkup
from headrace.actors.text.markup import TaggedMarkup
from headrace.actors.text.parser import AnswerParser
from headrace.actors.text.reasoning import THINK, Start
from headrace.runtime.testing.answers import WholeAnswer, parse, pieces

MARKUP = TaggedMarkup(THINK)


def read(text: str, start: Start = "before", *, cut: bool = False, size: int = 99) -> WholeAnswer:
    return WholeAnswer.of(parse(MARKUP, {}, pieces(text, size), start=start, cut=cut))


SPLITS: dict[str, tuple[str, Start, WholeAnswer]] = {
    "opened by the model": ("<think>a</think>b", "before", WholeAnswer("b", "a")),
    "opened by the template": ("a</think>b", "inside", WholeAnswer("b", "a")),
    "line breaks at the marks": (
        "\n<think>\n\na\n\nb\n</think>\n\n c\n",
        "before",
        WholeAnswer(" c\n", "a\n\nb"),
    ),
    "empty": ("<think>\n\n</think>\n\nb", "before", WholeAnswer("b")),
    "none": (" b </think>", "before", WholeAnswer(" b </think>")),
    "tags after it are text": (
        "a</think>b <think>c</think>",
        "inside",
        WholeAnswer("b <think>c</think>", "a"),
    ),
    "thinking off": ("<think>a</think>", "after", WholeAnswer("<think>a</think>")),
    "never closed": ("a\n</thin\n", "inside", WholeAnswer("", "a\n</thin\n")),
    "text before it": ("b <think>a</think>c", "before", WholeAnswer("b c", "a")),
    "an opener inside it": ("a <think> b</think>c", "inside", WholeAnswer("c", "a <think> b")),
}


@pytest.mark.parametrize(("text", "start", "answer"), SPLITS.values(), ids=SPLITS.keys())
@pytest.mark.parametrize("size", [1, 2, 3, 7, 99])
def test_the_split_is_the_same_in_pieces_m1_m2(
    text: str, start: Start, answer: WholeAnswer, size: int
) -> None:
    assert read(text, start, size=size) == answer


@given(
    st.lists(st.sampled_from([*"<think>/\n ax", "<think>", "</think>", "</"]), max_size=20),
    st.sampled_from(["before", "inside", "after"]),
    st.lists(st.integers(0, 60), max_size=6),
    st.booleans(),
)
def test_any_text_splits_the_same_at_any_border_m1(
    parts: list[str], start: Start, borders: list[int], cut: bool
) -> None:
    text = "".join(parts)
    places = [0, *sorted(min(place, len(text)) for place in borders), len(text)]
    whole = parse(MARKUP, {}, [text], start=start, cut=cut)
    in_parts = [text[a:b] for a, b in pairwise(places)]
    assert parse(MARKUP, {}, in_parts, start=start, cut=cut) == whole


def test_only_what_may_begin_the_closing_mark_waits() -> None:
    parser = AnswerParser(MARKUP, {}, "inside")
    shown = [WholeAnswer.of(parser.feed(part)).reasoning for part in ["a<", "b</th", "c\n", "d"]]
    assert shown == ["a", "<b", "</thc", "\nd"]


def test_a_cut_inside_the_closing_mark_shows_none_of_it() -> None:
    assert read("a\n</thi", "inside", cut=True) == WholeAnswer("", "a")
    assert read("<thi", cut=True) == WholeAnswer()


def test_calls_in_the_block_are_reasoning() -> None:
    markup = TaggedMarkup(THINK, formats.HERMES)
    call = '<tool_call>{"name": "g"}</tool_call>'
    answer = WholeAnswer.of(parse(markup, {"g": {}}, [f"{call}</think>{call}"], start="inside"))
    assert (answer.reasoning, answer.content, len(answer.calls)) == (call, "", 1)


STARTS: dict[str, tuple[str, str, Start]] = {
    "nothing": ("<|im_start|>assistant\n", "", "before"),
    "opened": ("<|im_start|>assistant\n<think>\n", "", "inside"),
    "closed": ("<|im_start|>assistant\n<think>\n\n</think>\n\n", "", "after"),
    "a question about tags": ("What is <think>?<|im_end|>\nassistant\n", "", "before"),
    "a turn begun with text": ("assistant\nOnce upon", "Once upon", "after"),
    "a turn begun inside the block": ("assistant\n<think>\nOnce", "<think>\nOnce", "inside"),
    "a turn begun after it": ("a\n<think>x</think>Once", "<think>x</think>Once", "after"),
}


@pytest.mark.parametrize(("prompt", "begun", "start"), STARTS.values(), ids=STARTS.keys())
def test_the_prompt_says_where_the_answer_starts_m2(prompt: str, begun: str, start: Start) -> None:
    assert THINK.start(prompt, begun) == start


def test_every_grammar_reads_the_prompt_m2() -> None:
    harmony = HarmonyMarkup()
    assert harmony.start("<|start|>assistant") == "before"
    assert harmony.start("<|start|>assistant<|channel|>analysis<|message|>") == "inside"
    assert harmony.start("<|channel|>final<|message|>Once", "Once") == "after"
    assert TaggedMarkup().start("<think>") == "after"
    assert MARKUP.start("<think>") == "inside"


def test_blocks_are_told_by_place() -> None:
    """A token budget and a count of tokens need to know where the block is."""
    parser = AnswerParser(MARKUP, {}, "before")
    parser.feed("\n<think>a")
    assert parser.blocks == [(1, None)]
    parser.feed("b</think>\n\nc")
    assert parser.blocks == [(1, 20)]
