"""How much a request may generate (field cases K1 and K3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.room import token_room
from headrace.runtime.errors import Code, RequestError


def test_without_a_wish_the_cap_is_the_room() -> None:
    assert token_room(100, 40, None).max_tokens == 60


def test_k3_a_cap_above_the_room_is_clamped_and_said() -> None:
    room = token_room(100, 90, 100)
    assert room.max_tokens == 10
    assert [warning.code for warning in room.warnings] == ["max_tokens_clamped"]


@pytest.mark.parametrize("prompt_tokens", [100, 101, 5000])
def test_k1_a_prompt_without_room_is_refused_with_the_classic_phrase(prompt_tokens: int) -> None:
    with pytest.raises(RequestError) as caught:
        token_room(100, prompt_tokens, 1)
    assert caught.value.code is Code.CONTEXT_LENGTH_EXCEEDED
    assert "maximum context length is 100 tokens" in str(caught.value)
    details = caught.value.info.details or {}
    assert details["prompt_tokens"] == prompt_tokens


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.none() | st.integers(0, 20_000))
def test_a_cap_is_never_raised_and_never_above_the_room(
    window: int, prompt_tokens: int, wanted: int | None
) -> None:
    if prompt_tokens >= window:
        return
    room = token_room(window, prompt_tokens, wanted)
    assert room.max_tokens <= window - prompt_tokens
    assert wanted is None or room.max_tokens <= wanted
    assert bool(room.warnings) == (wanted is not None and room.max_tokens < wanted)
