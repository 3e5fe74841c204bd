"""The scripted tokenizer: bytes and words, whole characters only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.contracts import Message, Prompt
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.ports import Tokenizer
from headrace.runtime.testing import ScriptedTokenizer


def decode(tokenizer: ScriptedTokenizer, tokens: tuple[int, ...]) -> list[str]:
    decoder = tokenizer.decoder()
    return [*(decoder.add(token) for token in tokens), decoder.flush()]


def test_a_letter_is_a_token() -> None:
    tokenizer = ScriptedTokenizer()
    assert tokenizer.encode("AZ") == (65, 90)
    assert decode(tokenizer, (65, 90)) == ["A", "Z", ""]


def test_a_word_of_the_vocabulary_is_one_token_and_the_longest_wins() -> None:
    tokenizer = ScriptedTokenizer(["he", "hello", " world"])
    assert tokenizer.encode("hello world he!") == (258, 259, 32, 257, 33)
    assert tokenizer.vocab_size == 260


def test_an_unfinished_character_is_held_and_becomes_one_replacement_at_the_end() -> None:
    tokenizer = ScriptedTokenizer()
    family = "👩‍👧".encode()
    assert decode(tokenizer, tuple(family[:6])) == ["", "", "", "👩", "", "", "\ufffd"]


def test_the_end_token_shows_nothing() -> None:
    tokenizer = ScriptedTokenizer()
    assert tokenizer.end_tokens == {tokenizer.end_token}
    assert decode(tokenizer, (65, tokenizer.end_token)) == ["A", "", ""]


@given(st.text(), st.lists(st.text(min_size=1), max_size=5, unique=True))
def test_text_comes_back_as_it_went_in(text: str, words: list[str]) -> None:
    tokenizer = ScriptedTokenizer(words)
    tokens = tokenizer.encode(text)
    assert "".join(decode(tokenizer, tokens)) == text == tokenizer.text(tokens)


def test_messages_are_rendered_turn_by_turn() -> None:
    tokenizer: Tokenizer = ScriptedTokenizer()
    user = Message("user", "count")
    assert rendered(tokenizer, Prompt(messages=(user,))) == "user: count\nassistant: "
    half = Prompt(messages=(user, Message("assistant", "1 2")), continue_final=True)
    assert rendered(tokenizer, half) == "user: count\nassistant: 1 2"


def rendered(tokenizer: Tokenizer, prompt: Prompt) -> str:
    return bytes(tokenizer.build(prompt)).decode()


def test_a_prompt_of_ids_is_taken_as_it_is_unless_an_id_is_unknown() -> None:
    tokenizer = ScriptedTokenizer(["word"])
    assert tokenizer.build(Prompt(tokens=(1, 257))) == (1, 257)
    with pytest.raises(RequestError) as caught:
        tokenizer.build(Prompt(tokens=(1, 258)))
    assert caught.value.code is Code.INVALID_TOKEN_ID


def test_a_prompt_is_never_empty() -> None:
    assert len(ScriptedTokenizer().build(Prompt(text=""))) == 1
