"""What a plain completion asks for: its prompts, and the fields that it has beside chat's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.wire.asking import Stamp
from headrace.http.wire.constraints import GUIDED
from headrace.http.wire.openai_completions import Completion, parse
from headrace.http.wire.openai_fields import (
    COMPLETION_REFUSED,
    COMPLETION_WITHOUT_EFFECT,
)
from headrace.http.wire.sampling import RULES as SAMPLING
from headrace.http.wire.shared_fields import AFFINITY
from headrace.runtime.constraints import Constraint
from headrace.runtime.contracts import InferenceRequest, Prompt, Sampling
from headrace.runtime.errors import Code, RequestError

STAMP = Stamp("req_1", "ab" * 16, seed=7, created=1760000000, route="/v1/completions")


def completion(prompt: Any = "Hi", **fields: Any) -> Completion:
    return parse({"prompt": prompt, **fields}, STAMP)


def failure(body: dict[str, Any]) -> tuple[Code, str | None]:
    with pytest.raises(RequestError) as caught:
        parse(body, STAMP)
    return caught.value.code, caught.value.info.param


def test_the_smallest_request() -> None:
    assert completion().requests == (
        InferenceRequest(
            id="req_1",
            model=None,
            prompt=Prompt(text="Hi"),
            sampling=Sampling(seed=7),
            route="/v1/completions",
        ),
    )


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("Hi", [Prompt(text="Hi")]),
        ("", [Prompt(text="")]),
        (None, [Prompt(text="")]),
        (["a"], [Prompt(text="a")]),
        (["a", "", "c"], [Prompt(text="a"), Prompt(text=""), Prompt(text="c")]),
        ([1, 2.0, 0], [Prompt(tokens=(1, 2, 0))]),
        ([[1, 2], [3]], [Prompt(tokens=(1, 2)), Prompt(tokens=(3,))]),
    ],
)
def test_every_form_of_a_prompt(prompt: Any, prompts: list[Prompt]) -> None:
    assert [request.prompt for request in completion(prompt).requests] == prompts


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({}, Code.MISSING_FIELD, "prompt"),
        ({"prompt": 5}, Code.INVALID_TYPE, "prompt"),
        ({"prompt": {}}, Code.INVALID_TYPE, "prompt"),
        ({"prompt": []}, Code.INVALID_VALUE, "prompt"),
        ({"prompt": [[]]}, Code.INVALID_VALUE, "prompt[0]"),
        ({"prompt": [[1], []]}, Code.INVALID_VALUE, "prompt[1]"),
        ({"prompt": ["a", 1]}, Code.INVALID_TYPE, "prompt[1]"),
        ({"prompt": [1, "a"]}, Code.INVALID_TYPE, "prompt[1]"),
        ({"prompt": [1, True]}, Code.INVALID_TYPE, "prompt[1]"),
        ({"prompt": [1, 1.5]}, Code.INVALID_TYPE, "prompt[1]"),
        ({"prompt": [None]}, Code.INVALID_TYPE, "prompt[0]"),
        ({"prompt": [[1], 2]}, Code.INVALID_TYPE, "prompt[1]"),
        ({"prompt": [[1], [2, None]]}, Code.INVALID_TYPE, "prompt[1][1]"),
        ({"prompt": [1, -1]}, Code.INVALID_TOKEN_ID, "prompt[1]"),
        ({"prompt": [10**30]}, Code.INVALID_TOKEN_ID, "prompt[0]"),
        ({"prompt": ["a"] * 129}, Code.INVALID_VALUE, "prompt"),
        ({"prompt": ["a"] * 65, "n": 2}, Code.INVALID_VALUE, "prompt"),
        ({"prompt": "a", "max_tokens": -1}, Code.INVALID_VALUE, "max_tokens"),
        ({"prompt": "a", "n": 0}, Code.INVALID_VALUE, "n"),
        ({"prompt": "a", "best_of": 3}, Code.UNSUPPORTED_PARAMETER, "best_of"),
        ({"prompt": "a", "n": 3, "best_of": 2}, Code.UNSUPPORTED_PARAMETER, "best_of"),
        ({"prompt": "a", "best_of": "x"}, Code.INVALID_TYPE, "best_of"),
        ({"prompt": "a", "echo": "yes"}, Code.INVALID_TYPE, "echo"),
        ({"prompt": "a", "logprobs": True}, Code.INVALID_TYPE, "logprobs"),
        ({"prompt": "a", "logprobs": 6}, Code.INVALID_VALUE, "logprobs"),
        ({"prompt": "a", "logprobs": -1}, Code.INVALID_VALUE, "logprobs"),
        ({"prompt": "a", "suffix": ""}, Code.UNSUPPORTED_PARAMETER, "suffix"),
        ({"prompt": "a", "messages": []}, Code.UNSUPPORTED_PARAMETER, "messages"),
        ({"prompt": "a", "tools": []}, Code.UNSUPPORTED_PARAMETER, "tools"),
        ({"prompt": "a", "hlg": 1}, Code.UNSUPPORTED_PARAMETER, "hlg"),
        ({"prompt": "a", "user": 5}, Code.INVALID_TYPE, "user"),
        ({"prompt": "a", "stream": 1}, Code.INVALID_TYPE, "stream"),
        ({"prompt": "a", "stop": [1]}, Code.INVALID_TYPE, "stop[0]"),
        ({"prompt": "a", "temperature": 3}, Code.INVALID_VALUE, "temperature"),
        (
            {"prompt": "a", "response_format": {"type": "grammar"}},
            Code.UNSUPPORTED_PARAMETER,
            "response_format.type",
        ),
    ],
)
def test_bad_fields_are_named_f9(body: dict[str, Any], code: Code, param: str) -> None:
    assert failure(body) == (code, param)


def test_answers_in_all_are_bounded() -> None:
    assert len(completion(["a"] * 64, n=2).echoes) == 128


def test_nothing_need_be_generated() -> None:
    assert completion(max_tokens=0).requests[0].max_tokens == 0
    assert completion(max_completion_tokens=2, max_tokens=0).requests[0].max_tokens == 2


def test_as_many_are_drawn_as_are_given() -> None:
    assert completion(n=3, best_of=3).requests[0].n == 3


def test_fields_of_chat_that_mean_something_here_too() -> None:
    request = completion(
        stream=True,
        seed=3,
        stop="x",
        logprobs=2,
        response_format={"type": "json_object"},
    ).requests[0]
    assert (request.stream, request.stop, request.logprobs) == (True, ("x",), 2)
    assert request.sampling == Sampling(seed=3)
    assert request.constraint == Constraint("json_object", param="response_format")


class TestSeeds:
    def test_a_seed_that_was_chosen_holds_for_every_prompt(self) -> None:
        asked = completion(["a", "a"], seed=3)
        assert [request.sampling.seed for request in asked.requests] == [3, 3]

    def test_a_seed_that_nobody_chose_is_another_for_each_prompt(self) -> None:
        seeds = {r.sampling.seed for r in completion(["a"] * 128).requests}
        assert len(seeds) == 128
        assert all(0 <= seed < 2**64 for seed in seeds)


class TestEcho:
    def test_a_text_is_known_here(self) -> None:
        asked = completion(["a", "b"], n=2, echo=True)
        assert asked.echoes == ("a", "a", "b", "b")
        assert not any(request.echo for request in asked.requests)

    def test_ids_and_scores_are_known_to_the_model_alone(self) -> None:
        for asked in (completion([1, 2], echo=True), completion("a", echo=True, logprobs=0)):
            assert asked.requests[0].echo
            assert asked.echoes == ("",)

    def test_without_it_nothing_precedes_the_answer(self) -> None:
        assert completion(["a", "b"]).echoes == ("", "")


KNOWN = [
    *(*AFFINITY, *COMPLETION_REFUSED, *COMPLETION_WITHOUT_EFFECT, *SAMPLING, *GUIDED),
    *("model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "stop", "n"),
    *("best_of", "echo", "logprobs", "response_format", "structured_outputs", "adapter"),
]


@pytest.mark.parametrize("name", KNOWN)
def test_null_is_absent(name: str) -> None:
    assert completion(**{name: None}).requests == completion().requests


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(odd, st.dictionaries(st.sampled_from(KNOWN), odd, max_size=4))
def test_no_value_of_any_field_is_a_server_error_i1(prompt: Any, fields: dict[str, Any]) -> None:
    try:
        parse({"prompt": prompt, **fields}, STAMP)
    except RequestError as error:
        named = error.info.param or ""
        assert named.split(".")[0].split("[")[0] in {*fields, "prompt"}
