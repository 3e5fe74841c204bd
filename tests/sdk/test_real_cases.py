"""What users of inference servers have met, on the real model where weights can matter (see
`test_field_cases`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import jsonschema
import openai
import pytest

Ask: TypeAlias = Callable[..., Any]

COUNTING = "List the numbers from 1 to 300, each on its own line."
WINDOW = 8192
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 10}, "rain": {"type": "boolean"}},
    "required": ["city", "rain"],
}
RAIN: dict[str, Any] = {
    "type": "object",
    "properties": {"rain": {"type": "boolean"}},
    "required": ["rain"],
    "additionalProperties": False,
}


def chatting(client: openai.OpenAI) -> Ask:
    asked: dict[str, Any] = {
        "model": "default",
        "messages": [{"role": "user", "content": COUNTING}],
    }
    return lambda **fields: client.chat.completions.create(**(asked | fields))


@pytest.fixture(scope="module")
def chat(client: openai.OpenAI) -> Ask:
    return chatting(client)


@pytest.fixture(scope="module")
def quick_chat(quick: openai.OpenAI) -> Ask:
    """With the small model, for what depends on no weights."""
    return chatting(quick)


@pytest.fixture(scope="module")
def complete(client: openai.OpenAI) -> Ask:
    return lambda prompt, **fields: client.completions.create(
        model="default", prompt=prompt, **fields
    )


def text(answer: Any) -> str:
    content: str = answer.choices[0].message.content
    return content


def joined(chunks: Iterable[Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


# ---- seeds and company --------------------------------------------------------------------


def test_a_seed_decides_the_text_whatever_runs_beside_it_f1_f2_f4(chat: Ask) -> None:
    drawn: dict[str, Any] = {"temperature": 1, "max_tokens": 5}
    first, other, again = (text(chat(seed=seed, **drawn)) for seed in (1, 2, 1))
    assert first == again != other
    with ThreadPoolExecutor(4) as pool:
        beside = [pool.submit(lambda: joined(chat(stream=True, **drawn))) for _ in range(3)]
        in_company = pool.submit(lambda: text(chat(seed=1, **drawn))).result()
        assert all(isinstance(said.result(), str) for said in beside)
    # The width of the batch may change a sum in its last digit, and no more than that.
    assert in_company[:4] == first[:4]


@pytest.mark.parametrize("width", [2, 4])
def test_greedy_text_is_the_same_at_the_same_width_f3(chat: Ask, width: int) -> None:
    first, second = (chat(n=width, temperature=0, max_tokens=6) for _ in range(2))
    said = {choice.message.content for answer in (first, second) for choice in answer.choices}
    assert len(said) == 1
    assert first.system_fingerprint == second.system_fingerprint


# ---- scores and echo ----------------------------------------------------------------------


def test_scores_are_the_same_in_a_stream_and_their_bytes_are_the_text_f7(chat: Ask) -> None:
    asked: dict[str, Any] = {"logprobs": True, "top_logprobs": 3, "temperature": 0, "max_tokens": 5}
    plain = chat(**asked).choices[0]
    chunks = [chunk.choices[0] for chunk in chat(**asked, stream=True)]
    streamed = [e for c in chunks if c.logprobs for e in c.logprobs.content]
    assert [e.token for e in streamed] == [e.token for e in plain.logprobs.content]
    assert bytes(b for e in streamed for b in e.bytes).decode() == plain.message.content
    assert [e.logprob for e in streamed] == pytest.approx(
        [e.logprob for e in plain.logprobs.content], abs=1e-3
    )


def test_a_prompt_is_scored_f9_j7(complete: Ask) -> None:
    prompt = "The capital of France is Paris , and a , b ."
    answer = complete(prompt, echo=True, max_tokens=0, logprobs=1)
    (choice,) = answer.choices
    scores = choice.logprobs
    assert (choice.text, choice.finish_reason) == (prompt, "length")
    assert "".join(scores.tokens) == prompt
    assert len(scores.tokens) == answer.usage.prompt_tokens
    assert scores.token_logprobs[0] is scores.top_logprobs[0] is None
    assert all(score <= 0 for score in scores.token_logprobs[1:])
    by_token = dict(zip(scores.tokens[1:], scores.token_logprobs[1:], strict=True))
    assert by_token[" Paris"] > -3
    for offset, token in zip(scores.text_offset, scores.tokens, strict=True):
        assert prompt[offset : offset + len(token)] == token


def test_what_is_scored_as_a_prompt_is_scored_as_an_answer_f9(complete: Ask) -> None:
    said = complete("1, 2, 3, 4,", temperature=0, max_tokens=4, logprobs=2).choices[0]
    whole = complete("1, 2, 3, 4," + said.text, echo=True, max_tokens=0, logprobs=2).choices[0]
    count = len(said.logprobs.tokens)
    assert whole.logprobs.tokens[-count:] == said.logprobs.tokens
    assert whole.logprobs.token_logprobs[-count:] == pytest.approx(
        said.logprobs.token_logprobs, abs=1e-2
    )


def test_echo_of_ids_in_a_list_streams_as_it_comes_whole_f9(complete: Ask) -> None:
    asked: dict[str, Any] = {"echo": True, "logprobs": 0, "max_tokens": 3, "temperature": 0}
    ids = [[504, 1, 28], [540]]
    plain = complete(ids, **asked).choices
    texts, tokens = ["", ""], [list[str](), list[str]()]
    for chunk in complete(ids, stream=True, **asked):
        (choice,) = chunk.choices
        texts[choice.index] += choice.text
        tokens[choice.index] += choice.logprobs.tokens if choice.logprobs else []
    assert texts == [choice.text for choice in plain]
    assert tokens == [choice.logprobs.tokens for choice in plain]
    assert ["".join(found) for found in tokens] == texts
    assert [choice.logprobs.token_logprobs[0] for choice in plain] == [None, None]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": [1, 2, 49152]}, "prompt[2]"),
        ({"prompt": [[1], [10**9]]}, "prompt[1][0]"),
        ({"prompt": "Hi", "logit_bias": {"49152": 1}}, "logit_bias.49152"),
    ],
)
def test_tokens_that_the_model_does_not_know_are_named_i1(
    client: openai.OpenAI, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="default", max_tokens=1, **fields)
    assert (caught.value.code, caught.value.param) == ("invalid_token_id", param)


# ---- text ---------------------------------------------------------------------------------


def test_a_stop_of_several_tokens_matches_in_a_stream_g3_g4(complete: Ask) -> None:
    asked: dict[str, Any] = {"stop": ["5\n6"], "temperature": 0, "max_tokens": 10}
    choice = complete("1\n2\n3\n", **asked).choices[0]
    chunks = [chunk.choices[0] for chunk in complete("1\n2\n3\n", **asked, stream=True)]
    assert "".join(chunk.text for chunk in chunks) == choice.text == "4\n"
    assert chunks[-1].matched_stop == choice.matched_stop == "5\n6"


def test_whole_characters_only_g5_g9(quick_chat: Ask) -> None:
    wanted = "ďábel 👩‍👩‍👧 日本"
    asked: dict[str, Any] = {"extra_body": {"guided_choice": [wanted]}, "max_tokens": 60}
    chunks = list(quick_chat(**asked, stream=True))
    assert joined(chunks) == text(quick_chat(**asked)) == wanted
    assert not any("\ufffd" in (c.choices[0].delta.content or "") for c in chunks)


def test_a_character_that_never_comes_to_its_end_is_one_replacement_g6(
    chat: Ask, complete: Ask
) -> None:
    lead = _byte_token(complete, 0xE6)
    asked: dict[str, Any] = {"logit_bias": {str(lead): 100}, "max_tokens": 1}
    assert joined(chat(**asked, stream=True)) == text(chat(**asked)) == "\ufffd"


def _byte_token(complete: Ask, byte: int) -> int:
    """The token that is this byte, of which no character can be made alone."""
    numbers = range(160, 200)
    answer = complete([[number] for number in numbers], echo=True, max_tokens=0, logprobs=0)
    names = [choice.logprobs.tokens[0] for choice in answer.choices]
    return numbers[names.index(f"bytes:\\x{byte:02x}")]


# ---- caps, prompts ------------------------------------------------------------------------


def test_the_newer_name_of_the_cap_wins_h10(quick_chat: Ask) -> None:
    answer = quick_chat(max_completion_tokens=5, max_tokens=50)
    assert (answer.usage.completion_tokens, answer.choices[0].finish_reason) == (5, "length")


def test_an_open_answer_is_gone_on_with_j5(chat: Ask) -> None:
    begun = {"role": "assistant", "content": "1\n2\n3\n"}
    asked: dict[str, Any] = {
        "messages": [{"role": "user", "content": COUNTING}, begun],
        "temperature": 0,
        "max_tokens": 2,
    }
    going_on = chat(**asked)
    assert text(going_on).startswith("4")
    closed = chat(**asked, extra_body={"continue_final_message": False})
    assert closed.usage.prompt_tokens > going_on.usage.prompt_tokens


def test_parts_are_joined_j2_k2(quick_chat: Ask) -> None:
    def counted(content: Any) -> int:
        answer = quick_chat(messages=[{"role": "user", "content": content}], max_tokens=1)
        tokens: int = answer.usage.prompt_tokens
        return tokens

    parts = [{"type": "text", "text": part} for part in ("One", "two")]
    assert counted(parts) == counted("One\ntwo")


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_over_the_window_is_refused_k1_h6(chat: Ask, complete: Ask, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as by_ids:
        complete([5] * (WINDOW + 1), stream=stream)
    with pytest.raises(openai.BadRequestError) as by_text:
        chat(messages=[{"role": "user", "content": "a b " * WINDOW}], stream=stream)
    for caught in (by_ids, by_text):
        assert caught.value.code == "context_length_exceeded"
        assert f"maximum context length is {WINDOW} tokens" in str(caught.value)


# ---- forms --------------------------------------------------------------------------------


def test_a_forced_call_keeps_to_its_schema_in_both_ways_l6(quick_chat: Ask) -> None:
    function = {"name": "tell", "parameters": RAIN}
    asked: dict[str, Any] = {
        "messages": [{"role": "user", "content": "Does it rain?"}],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": "tell"}},
        "parallel_tool_calls": False,
        "temperature": 0,
        "max_tokens": 60,
    }
    plain = quick_chat(**asked).choices[0]
    (call,) = plain.message.tool_calls
    chunks = [chunk.choices[0] for chunk in quick_chat(**asked, stream=True)]
    pieces = [piece for chunk in chunks for piece in chunk.delta.tool_calls or ()]
    said = "".join(piece.function.arguments or "" for piece in pieces)
    jsonschema.validate(json.loads(call.function.arguments), RAIN)
    assert said == call.function.arguments
    assert {plain.finish_reason, chunks[-1].finish_reason} == {"tool_calls"}


def test_rows_with_forms_and_without_run_together_n1(quick_chat: Ask) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
    asks: list[dict[str, Any]] = [
        *[{"response_format": schema}] * 2,
        *[{"extra_body": {"guided_regex": "[a-f]{2,6}"}}] * 2,
        *[{"max_tokens": 8}] * 2,
    ]
    with ThreadPoolExecutor(len(asks)) as pool:
        answers = list(pool.map(lambda fields: quick_chat(**{"max_tokens": 24} | fields), asks))
    for answer in answers[:2]:
        if answer.choices[0].finish_reason == "stop":
            jsonschema.validate(json.loads(text(answer)), CITY)
    assert all(set(text(answer)) <= set("abcdef") for answer in answers[2:4])
    assert {answer.choices[0].finish_reason for answer in answers[2:4]} == {"stop"}
