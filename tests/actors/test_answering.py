"""From a request with tools and thinking to a prompt, and from tokens to the right events."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils.chat_template_utils import render_jinja_template
from trio.testing import MockClock

from headrace.actors.answering import Answering
from headrace.actors.engine.call_parsers import call_parser
from headrace.actors.engine.template import ChatTemplate
from headrace.actors.host import Host
from headrace.actors.messages import Delivery, Ended, Figures, Prepared, ToModel
from headrace.actors.row import Row
from headrace.actors.spec import ModelSpec
from headrace.actors.wire import ITEMS
from headrace.runtime.constraints import Constraint
from headrace.runtime.contracts import (
    CallArguments,
    CallEnded,
    CallStarted,
    ChoiceEnded,
    Delta,
    Event,
    Finished,
    InferenceRequest,
    Message,
    Prompt,
    ReasoningDelta,
    Sampling,
    Thinking,
    Tool,
    ToolUse,
    Warning_,
)
from headrace.runtime.ports import CallParser, RowToken, TokenScores
from headrace.runtime.testing import Script, ScriptedModel
from headrace.runtime.testing.fuzzing import Compiling
from headrace.runtime.testing.runtime import ask
from headrace.runtime.testing.scene import open_scene
from headrace.runtime.testing.templates import TEMPLATES
from headrace.runtime.testing.tokens import ScriptedDecoder, ScriptedTokenizer
from headrace.runtime.trace import Trace

HI = Message("user", "Hi")
ADD = Tool("add", {"type": "object", "properties": {"a": {"type": "integer"}}}, "Adds.")
NOW = Tool("now")
BOTH = ToolUse((ADD, NOW))


@cache
def chat_template(source: str) -> ChatTemplate:
    def apply(conversation: list[dict[str, Any]], **args: Any) -> str:
        text: str = render_jinja_template([conversation], chat_template=source, **args)[0][0]
        return text

    return ChatTemplate(apply)


class Templated(ScriptedTokenizer):
    """Scripted tokens behind a real chat template."""

    def __init__(self, style: str, words: Sequence[str] = (), special: Sequence[str] = ()) -> None:
        source = TEMPLATES[style]
        self._chat = chat_template(source)
        super().__init__(words, special=special, template=source, traits=self._chat.traits)
        self.prompts: list[str] = []

    def render(self, prompt: Prompt, tools: Sequence[dict[str, Any]] = ()) -> str:
        text = self._chat.render(
            prompt.messages or (),
            continue_final=prompt.continue_final,
            args=prompt.template_args,
            tools=tools,
        )
        self.prompts.append(text)
        return text

    def call_parser(self, name: str) -> CallParser | None:
        return call_parser(name)


@attrs.frozen
class Call:
    name: str
    arguments: str
    complete: bool = True


@attrs.frozen
class Said:
    """One answer as a client puts it together."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    reason: str = "stop"

    @classmethod
    def of(cls, events: Iterable[Event], choice: int = 0) -> Said:
        said = cls(reason="")
        for event in events:
            if not isinstance(event, Finished) and getattr(event, "choice", 0) == choice:
                said = said.after(event)
        return said

    def after(self, event: Event) -> Said:
        match event:
            case Delta(text):
                return attrs.evolve(self, content=self.content + text)
            case ReasoningDelta(text):
                return attrs.evolve(self, reasoning=self.reasoning + text)
            case CallStarted(number, name):
                assert number == len(self.calls)
                return attrs.evolve(self, calls=(*self.calls, Call(name, "", complete=False)))
            case CallArguments(number, text):
                assert number == len(self.calls) - 1
                return self._call(arguments=self.calls[-1].arguments + text)
            case CallEnded(number):
                assert number == len(self.calls) - 1
                return self._call(complete=True)
            case ChoiceEnded(reason):
                return attrs.evolve(self, reason=reason)
        return self

    def _call(self, **change: Any) -> Said:
        return attrs.evolve(self, calls=(*self.calls[:-1], attrs.evolve(self.calls[-1], **change)))


def asked(*messages: Message, **more: Any) -> InferenceRequest:
    prompt = {name: more.pop(name) for name in ("continue_final", "template_args") if name in more}
    return InferenceRequest(
        "r", None, Prompt(messages=messages or (HI,), **prompt), Sampling(seed=0), **more
    )


def prompt_of(tokenizer: ScriptedTokenizer, request: InferenceRequest) -> str:
    return tokenizer.text(Answering(tokenizer, {}).build(request).tokens)


def events_of(
    tokenizer: ScriptedTokenizer,
    request: InferenceRequest,
    tokens: Iterable[int],
    *,
    max_tokens: int = 10_000,
    end: bool = True,
) -> list[Event]:
    """What one row brings for these tokens, without a runtime around it."""
    row = Row("t", request, Answering(tokenizer, {}).build(request))
    row.begin([1], max_tokens, tokenizer)
    events = list[Event]()
    for token in (*tokens, *([tokenizer.end_token] if end else [])):
        scores = None if request.logprobs is None else TokenScores(-1.0)
        events += row.on_token(row.choices[0], RowToken(1, token, scores))
    return events


def said_of(
    tokenizer: ScriptedTokenizer, request: InferenceRequest, text: str, **more: Any
) -> Said:
    return Said.of(events_of(tokenizer, request, tokenizer.encode(text), **more))


# ---- tools in the prompt ------------------------------------------------------------------

NATIVE = ("hermes", "thinking", "one call", "short ids", "tagged", "harmony")
DESCRIBED = ("plain", "strict", "opens thinking")


@pytest.mark.parametrize("style", NATIVE)
def test_a_template_with_tools_shows_them_itself(style: str) -> None:
    prompt = prompt_of(Templated(style), asked(tools=BOTH))
    assert "add" in prompt
    assert "You can use these tools" not in prompt


@pytest.mark.parametrize("style", DESCRIBED)
def test_to_a_model_without_them_tools_are_described(style: str) -> None:
    prompt = prompt_of(Templated(style), asked(Message("system", "Be brief."), HI, tools=BOTH))
    before, _, after = prompt.partition("You can use these tools")
    assert '{"name": "add", "description": "Adds."' in after
    assert "Be brief." in before
    assert "Hi" in after


@pytest.mark.parametrize("style", TEMPLATES)
def test_with_choice_none_no_tool_is_told(style: str) -> None:
    """L7."""
    without = prompt_of(Templated(style), asked())
    assert prompt_of(Templated(style), asked(tools=attrs.evolve(BOTH, choice="none"))) == without


HISTORY = (
    Message("user", "1 + 1?"),
    Message(
        "assistant",
        "",
        tool_calls=(
            {
                "id": "call_0123456789abcdef01234567",
                "type": "function",
                "function": {"name": "add", "arguments": {"a": 1}},
            },
            {
                "id": "call_123456789abcdef012345678",
                "type": "function",
                "function": {"name": "now", "arguments": {}},
            },
        ),
    ),
    Message("tool", "two", tool_call_id="call_0123456789abcdef01234567"),
    Message("tool", "noon", tool_call_id="call_123456789abcdef012345678"),
)


@pytest.mark.parametrize("tools", [None, BOTH], ids=["no tools", "tools"])
@pytest.mark.parametrize("style", TEMPLATES)
def test_calls_and_results_of_earlier_turns_are_shown(style: str, tools: ToolUse | None) -> None:
    """J1, on templates that refuse long ids, several calls in a turn, or any call at all."""
    prompt = prompt_of(Templated(style), asked(*HISTORY, tools=tools))
    _, _, shown = prompt.partition("1 + 1?")
    places = [shown.index("add"), shown.index("two"), shown.index("noon")]
    assert places == sorted(places)
    assert shown.index("now") < shown.index("noon")
    assert "{'" not in shown


@pytest.mark.parametrize("tools", [None, BOTH], ids=["no tools", "tools"])
@pytest.mark.parametrize("style", TEMPLATES)
def test_the_user_may_speak_right_after_a_result_j4(style: str, tools: ToolUse | None) -> None:
    """Agents on the Anthropic protocol do so all the time, and some templates refuse it."""
    asked_next = Message("user", "And tomorrow?")
    prompt = prompt_of(Templated(style), asked(*HISTORY, asked_next, tools=tools))
    assert prompt.index("noon") < prompt.index("And tomorrow?")
    later = (Message("assistant", "Rain."), Message("user", "And then?"))
    assert "And then?" in prompt_of(Templated(style), asked(*HISTORY, asked_next, *later))


@pytest.mark.parametrize("style", TEMPLATES)
def test_arguments_that_are_no_json_fail_no_template(style: str) -> None:
    """L8."""
    call = {"id": "x", "type": "function", "function": {"name": "add", "arguments": "{oops"}}
    history = (HI, Message("assistant", "", tool_calls=(call,)), Message("tool", "?"))
    assert "{oops" in prompt_of(Templated(style), asked(*history))


# ---- tokens into events -------------------------------------------------------------------

HERMES_CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
ONE = (Call("add", '{"a": 1}'),)
# A style, what its model writes, and what that is.
ANSWERS = [
    ("plain", "Sure.\n" + HERMES_CALL, Said("Sure.\n", "", ONE, "tool_calls")),
    ("strict", HERMES_CALL, Said("", "", ONE, "tool_calls")),
    ("hermes", HERMES_CALL, Said("", "", ONE, "tool_calls")),
    (
        "thinking",
        f"<think>\nHm.\n</think>\n\nSo: {HERMES_CALL}\n<tool_call>\n"
        '{"name": "now", "arguments": {}}\n</tool_call>',
        Said("So: ", "Hm.", (*ONE, Call("now", "{}")), "tool_calls"),
    ),
    (
        "opens thinking",
        f"Hm.\n</think>\n\n{HERMES_CALL}",
        Said("", "Hm.", ONE, "tool_calls"),
    ),
    (
        "one call",
        '{"name": "add", "parameters": {"a": 1}}',
        Said("", "", ONE, "tool_calls"),
    ),
    (
        "short ids",
        '[TOOL_CALLS] [{"name": "add", "arguments": {"a": 1}}, {"name": "now", "arguments": {}}]',
        Said("", "", (*ONE, Call("now", "{}")), "tool_calls"),
    ),
    (
        "tagged",
        "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
        Said("", "", ONE, "tool_calls"),
    ),
    (
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.add <|constrain|>json<|message|>{"a": 1}',
        Said("", "Hm.", ONE, "tool_calls"),
    ),
    (
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Two.",
        Said("Two.", "Hm."),
    ),
    ("thinking", "<think>Hm.</think>Two </think>.", Said("Two </think>.", "Hm.")),
    ("hermes", '<tool_call>\n{"name": "mul", "arguments": {}}\n</tool_call>', None),
]
SPECIALS = {
    "hermes": ("<tool_call>", "</tool_call>"),
    "thinking": ("<think>", "</think>", "<tool_call>", "</tool_call>"),
    "opens thinking": ("<think>", "</think>", "<｜tool▁call▁begin｜>"),
    "one call": ("<|python_tag|>", "<|start_header_id|>"),
    "short ids": ("[TOOL_CALLS]", "[ARGS]", "</s>"),
    "tagged": ("<function=", "</function>", "<parameter=", "</parameter>"),
    "harmony": ("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>"),
}


@pytest.mark.parametrize(("style", "text", "expected"), ANSWERS)
@pytest.mark.parametrize("special", [False, True], ids=["plain tokens", "special tokens"])
def test_what_a_model_writes_is_told_as_what_it_is(
    style: str, text: str, expected: Said | None, special: bool
) -> None:
    """L4, M1, M2: whether or not the marks are special tokens of the vocabulary. Without an
    expectation the text is content."""
    tokenizer = Templated(style, special=SPECIALS.get(style, ()) if special else ())
    assert said_of(tokenizer, asked(tools=BOTH), text) == (expected or Said(text))


@given(data=st.data())
def test_no_way_to_cut_the_text_into_tokens_changes_what_it_is(data: st.DataObject) -> None:
    """L4."""
    style, text, expected = data.draw(st.sampled_from(ANSWERS))
    borders = data.draw(st.sets(st.integers(1, len(text) - 1), max_size=12))
    places = [0, *sorted(borders), len(text)]
    words = [text[a:b] for a, b in itertools.pairwise(places)]
    tokenizer = Templated(style, list(dict.fromkeys(words)))
    tokens = [tokenizer.encode(word)[0] for word in words]
    events = events_of(tokenizer, asked(tools=BOTH), tokens)
    assert Said.of(events) == (expected or Said(text))


@pytest.mark.parametrize(("style", "text", "expected"), ANSWERS)
def test_an_answer_cut_at_any_place_is_the_beginning_of_the_whole(
    style: str, text: str, expected: Said | None
) -> None:
    """L5, H7: the cap wins over everything, and markup is never content."""
    whole = expected or Said(text)
    tokenizer = Templated(style)
    for cap in range(1, len(tokenizer.encode(text)) + 1):
        events = events_of(
            tokenizer, asked(tools=BOTH), tokenizer.encode(text), max_tokens=cap, end=False
        )
        said = Said.of(events)
        assert said.reason == "length"
        assert whole.content.startswith(said.content)
        assert whole.reasoning.startswith(said.reasoning)
        assert len(said.calls) <= len(whole.calls)
        for call, full in zip(said.calls, whole.calls, strict=False):
            assert call.name == full.name
            assert full.arguments.startswith(call.arguments)
            assert not call.complete or call.arguments == full.arguments
        finished = events[-1]
        assert isinstance(finished, Finished)
        assert finished.usage.completion_tokens == cap


def test_reasoning_counts_towards_the_cap() -> None:
    """H11."""
    tokenizer = Templated("opens thinking")
    for cap in (1, 5, 12):
        events = events_of(tokenizer, asked(), b"x" * 20, max_tokens=cap, end=False)
        assert Said.of(events) == Said("", "x" * cap, reason="length")
        finished = events[-1]
        assert isinstance(finished, Finished)
        assert (finished.usage.completion_tokens, finished.usage.reasoning_tokens) == (cap, cap)


def test_a_parser_from_outside_reads_what_has_no_format_of_ours() -> None:
    class Pythonic(Templated):
        def __init__(self) -> None:
            super().__init__("hermes", special=("<|tool_call_start|>", "<|tool_call_end|>"))
            self.declared_calls = "pythonic"

    text = "<|tool_call_start|>[add(a=1), now()]<|tool_call_end|>"
    expected = Said("", "", (Call("add", '{"a":1}'), Call("now", "{}")), "tool_calls")
    assert said_of(Pythonic(), asked(tools=BOTH), text) == expected
    single = attrs.evolve(BOTH, parallel=False)
    assert said_of(Pythonic(), asked(tools=single), text) == attrs.evolve(
        expected, calls=expected.calls[:1]
    )


# ---- which tools may be called ------------------------------------------------------------


def test_with_choice_none_nothing_is_read_as_a_call() -> None:
    tools = attrs.evolve(BOTH, choice="none")
    assert said_of(Templated("hermes"), asked(tools=tools), HERMES_CALL) == Said(HERMES_CALL)


def test_a_tool_that_is_not_allowed_is_not_called() -> None:
    tools = attrs.evolve(BOTH, named=("now",))
    assert said_of(Templated("hermes"), asked(tools=tools), HERMES_CALL) == Said(HERMES_CALL)


def test_marks_that_nothing_is_read_of_stay_hidden_if_they_are_special_tokens() -> None:
    tokenizer = Templated("short ids", special=("[TOOL_CALLS]",))
    tools = attrs.evolve(BOTH, choice="none")
    assert said_of(tokenizer, asked(tools=tools), "[TOOL_CALLS]Hm") == Said("Hm")


@pytest.mark.parametrize("style", ["hermes", "plain"])
def test_without_parallel_calls_the_answer_ends_with_the_first(style: str) -> None:
    text = f"{HERMES_CALL}\n{HERMES_CALL} and more"
    tools = attrs.evolve(BOTH, parallel=False)
    events = events_of(Templated(style), asked(tools=tools), Templated(style).encode(text))
    assert Said.of(events) == Said("", "", ONE, "tool_calls")
    finished = events[-1]
    assert isinstance(finished, Finished)
    # The object is closed, and nothing after it was waited for.
    assert finished.usage.completion_tokens < len(HERMES_CALL)


# ---- reasoning ----------------------------------------------------------------------------

OFF = Thinking(enabled=False)


def test_the_template_decides_where_nobody_says() -> None:
    assert "<think>" not in prompt_of(Templated("thinking"), asked())
    assert prompt_of(Templated("opens thinking"), asked()).endswith("<think>\n")


def test_the_switch_and_the_effort_reach_the_template() -> None:
    prompt = prompt_of(Templated("thinking"), asked(thinking=OFF))
    assert prompt.endswith("<think>\n\n</think>\n\n")
    prompt = prompt_of(Templated("thinking"), asked(thinking=Thinking(effort="high")))
    assert prompt.endswith("assistant\nhigh")
    prompt = prompt_of(Templated("harmony"), asked(thinking=Thinking(effort="low")))
    assert "Reasoning: low" in prompt


def test_with_thinking_off_tags_are_text() -> None:
    text = "<think>Hm.</think>Two."
    assert said_of(Templated("thinking"), asked(thinking=OFF), text) == Said(text)


def test_a_template_that_opens_the_block_all_the_same_has_it_closed() -> None:
    tokenizer = Templated("opens thinking")
    assert prompt_of(tokenizer, asked(thinking=OFF)).endswith("<think>\n\n</think>\n\n")
    assert said_of(tokenizer, asked(thinking=OFF), "Two.") == Said("Two.")


def test_a_model_without_reasoning_takes_the_fields_without_effect() -> None:
    thinking = Thinking(True, "high", 3)
    tokenizer = Templated("plain")
    assert prompt_of(tokenizer, asked(thinking=thinking)) == prompt_of(tokenizer, asked())
    assert said_of(tokenizer, asked(thinking=thinking), "<think>") == Said("<think>")


@pytest.mark.parametrize(
    ("begun", "text", "expected"),
    [
        ("<think>Let me", " see.</think>Two.", Said("Two.", " see.")),
        ("<think>Hm.</think>So", ": </think>.", Said(": </think>.")),
        ("So", ": <think>.", Said(": <think>.")),
    ],
)
def test_an_answer_goes_on_where_the_client_began_it(begun: str, text: str, expected: Said) -> None:
    """Also where a system message stands behind it, whose place means nothing."""
    messages = (HI, Message("assistant", begun), Message("system", "Be brief."))
    request = asked(*messages, continue_final=True)
    tokenizer = Templated("thinking")
    assert prompt_of(tokenizer, request).endswith(begun)
    assert said_of(tokenizer, request, text) == expected


def test_a_stop_string_is_looked_for_in_visible_text_only() -> None:
    """G8."""
    text = f"<think>STOP here</think>Go on. {HERMES_CALL} STOP here"
    said = said_of(Templated("thinking"), asked(tools=BOTH, stop=("STOP",)), text)
    assert said == Said("Go on.  ", "STOP here", ONE, "tool_calls")


# ---- scores -------------------------------------------------------------------------------


@pytest.mark.parametrize(("style", "text", "expected"), ANSWERS)
@pytest.mark.parametrize("special", [False, True], ids=["plain tokens", "special tokens"])
def test_the_scored_tokens_are_those_of_the_visible_text(
    style: str, text: str, expected: Said | None, special: bool
) -> None:
    tokenizer = Templated(style, special=SPECIALS.get(style, ()) if special else ())
    events = events_of(tokenizer, asked(tools=BOTH, logprobs=0), tokenizer.encode(text))
    scored = [token for event in events if isinstance(event, Delta) for token in event.scored]
    shown = b"".join(token.chosen.raw for token in scored)
    assert shown.decode() == (expected or Said(text)).content


def test_a_token_that_a_stop_cuts_is_scored_as_far_as_it_is_visible() -> None:
    tokenizer = Templated("plain", words=["xS"])
    request = asked(logprobs=0, stop=("STOP",))
    events = events_of(tokenizer, request, tokenizer.encode("axSTOP"))
    scored = [token for event in events if isinstance(event, Delta) for token in event.scored]
    assert [token.chosen.raw for token in scored] == [b"a", b"x"]


# ---- through the runtime ------------------------------------------------------------------


async def answered(
    tokenizer: ScriptedTokenizer, request: InferenceRequest, *texts: str, end: bool = True
) -> tuple[Event, ...]:
    """The events that a scripted model brings that says one of the texts for each choice."""
    model = ScriptedModel(
        tokenizer=tokenizer,
        script_of=lambda spec: Script(texts[min(spec.choice, len(texts) - 1)], end=end),
    )
    async with open_scene(model) as scene:
        answer = await ask(scene.runtime, request)
        assert scene.engine.misuses == []
        await scene.baseline.settle()
    return answer.events


async def test_a_stream_of_reasoning_text_and_calls(autojump_clock: MockClock) -> None:
    style, text, expected = ANSWERS[3]
    assert expected is not None
    tokenizer = Templated(style, special=SPECIALS[style])
    events = await answered(tokenizer, asked(tools=BOTH), text)
    assert Said.of(events) == expected
    assert len(tokenizer.prompts) == 1
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.usage.completion_tokens == len(tokenizer.encode(text))
    assert finished.usage.reasoning_tokens == len(tokenizer.encode("<think>\nHm.\n</think>\n\n"))
    assert [json.loads(call.arguments) for call in expected.calls] == [{"a": 1}, {}]


async def test_each_of_several_answers_is_read_by_itself(autojump_clock: MockClock) -> None:
    texts = ("<think>One</think>a", HERMES_CALL, "<think>Three")
    request = asked(tools=BOTH, n=3)
    with trio.fail_after(60):
        events = await answered(Templated("thinking"), request, *texts)
    assert [Said.of(events, choice) for choice in range(3)] == [
        Said("a", "One"),
        Said("", "", ONE, "tool_calls"),
        Said("", "Three"),
    ]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.usage.completion_tokens == sum(map(len, texts))
    assert finished.usage.reasoning_tokens == len("<think>One</think>" + "<think>Three")


@pytest.mark.parametrize("style", ["thinking", "opens thinking"])
@pytest.mark.parametrize("budget", [1, 4, 10])
async def test_a_block_is_closed_when_its_budget_is_used_up(
    autojump_clock: MockClock, style: str, budget: int
) -> None:
    opened = "" if style == "opens thinking" else "<think>"
    tokenizer = Templated(style, special=["<think>", "</think>"])
    request = asked(thinking=Thinking(budget_tokens=budget), max_tokens=budget + 12)
    events = await answered(tokenizer, request, opened + "x" * 500, end=False)
    thought = budget - len(tokenizer.encode(opened))
    closing = tokenizer.encode("\n</think>\n\n")
    assert Said.of(events) == Said("x" * (12 - len(closing)), "x" * thought, reason="length")
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.usage.reasoning_tokens == budget + len(closing)


async def test_analysis_is_closed_by_going_on_to_the_final_message(
    autojump_clock: MockClock,
) -> None:
    tokenizer = Templated("harmony", special=SPECIALS["harmony"])
    request = asked(thinking=Thinking(budget_tokens=20), max_tokens=50)
    header = "<|channel|>analysis<|message|>"
    events = await answered(tokenizer, request, header + "x" * 99)
    thought = 20 - len(tokenizer.encode(header))
    closing = tokenizer.encode("<|end|><|start|>assistant<|channel|>final<|message|>")
    rest = 50 - 20 - len(closing)
    assert Said.of(events) == Said("x" * rest, "x" * thought, reason="length")


async def test_a_block_that_ends_within_its_budget_is_left_alone(
    autojump_clock: MockClock,
) -> None:
    request = asked(thinking=Thinking(budget_tokens=100))
    events = await answered(Templated("thinking"), request, "<think>Hm.</think>Two.")
    assert Said.of(events) == Said("Two.", "Hm.")


async def test_a_budget_of_nothing_closes_the_block_at_once(autojump_clock: MockClock) -> None:
    request = asked(thinking=Thinking(budget_tokens=0))
    tokenizer = Templated("opens thinking")
    assert Said.of(await answered(tokenizer, request, "Two.")) == Said("Two.")
    assert tokenizer.prompts[0].endswith("<think>\n")
    text = "<think>"
    events = await answered(Templated("thinking", special=["<think>"]), request, text + "Two.")
    assert Said.of(events) == Said("Two.")


async def test_what_is_served_differently_is_told_with_the_prompt(
    autojump_clock: MockClock,
) -> None:
    """On its way from the model to the client, also where that is between two processes."""
    warning = Warning_("schema_not_enforced", "some keywords are left out", "tools")
    spec = ModelSpec("m", "m")
    host = Host(spec, Trace(), end_seconds=1, on_measured=lambda model, measured: None)
    prepared = ITEMS.decode(ITEMS.encode(Prepared(3, (warning,))))

    def tell(message: ToModel) -> None:
        host.deliver(Delivery((("t", prepared), ("t", Ended())), Figures()))

    host.open(ScriptedModel().info(), tell)
    async with host.seat("t", lambda event: None) as seat:
        assert await seat.prepare(asked()) == Prepared(3, (warning,))


# ---- forms --------------------------------------------------------------------------------


class Prefixing(Compiling):
    """Drops the first space of a text, as many tokenizers do."""

    def decoder(
        self, prompt: Prompt | None = None, shown: frozenset[int] = frozenset()
    ) -> ScriptedDecoder:
        decoder = super().decoder(prompt, shown)
        if prompt is None or (prompt.messages is not None and not prompt.continue_final):
            decoder.add = lambda token: "" if token == ord(" ") else chr(token)  # type: ignore[method-assign]
        return decoder


@pytest.mark.parametrize(
    ("constraint", "said"),
    [(None, "yes"), (Constraint("choice", (" yes",)), " yes"), (Constraint("regex", ".*"), " yes")],
)
def test_a_space_that_a_form_begins_with_is_kept(constraint: Constraint | None, said: str) -> None:
    request = asked(constraint=constraint)
    assert said_of(Prefixing(), request, " yes").content == said
