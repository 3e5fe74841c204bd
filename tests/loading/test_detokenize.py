"""Text comes a token at a time: whole characters only, and in the end all of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.actors.engine.detokenize import PieceDecoder, WindowDecoder
from headrace.actors.engine.tokens import TextTokenizer
from headrace.runtime.contracts import Prompt
from headrace.runtime.ports import Decoder

BYTE_KINDS = ["byte level", "byte fallback", "byte fallback, stripped"]
KINDS = [*BYTE_KINDS, "metaspace"]
FAMILY = "👩‍👩‍👧"
# From all planes, joined emoji and combining marks included. U+2581 is a space to SentencePiece.
texts = st.lists(
    st.one_of(
        st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd\u2581"),
        st.sampled_from([FAMILY, "e\u0301", "日本", "\u0000", "\uffff", "𐍈", "<0x41>"]),
        st.sampled_from([" ", "  ", "\n", " the", "the"]),
    ),
    max_size=20,
).map("".join)


@pytest.fixture(scope="session")
def tokenizers(tokenizer_kinds: dict[str, Path]) -> dict[str, TextTokenizer]:
    return {kind: TextTokenizer.read(folder) for kind, folder in tokenizer_kinds.items()}


@pytest.fixture(params=KINDS)
def tokenizer(
    request: pytest.FixtureRequest, tokenizers: dict[str, TextTokenizer]
) -> TextTokenizer:
    return tokenizers[request.param]


def streamed(decoder: Decoder, tokens: Sequence[int]) -> list[str]:
    return [*(decoder.add(token) for token in tokens), decoder.flush()]


def at_once(tokenizer: TextTokenizer, tokens: Sequence[int]) -> str:
    return tokenizer._decode(tokens)


def encoded(tokenizer: TextTokenizer, text: str) -> list[int]:
    return list(tokenizer._encode(text))


def ids(count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, count - 1), max_size=30)


# ---- all kinds of tokenizers --------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(text=texts)
@example(text=f" ďábel {FAMILY} 日本")
@example(text="a , b .")
@example(text="  two spaces  ")
def test_a_text_comes_whole_and_as_decoded_at_once(
    tokenizers: dict[str, TextTokenizer], kind: str, text: str
) -> None:
    tokens = encoded(tokenizers[kind], text)
    parts = streamed(tokenizers[kind].decoder(), tokens)
    assert "".join(parts) == at_once(tokenizers[kind], tokens)
    if kind != "metaspace":  # it has no tokens for what it was not trained on
        assert "".join(parts) == text
        assert all("\ufffd" not in part for part in parts)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_any_tokens_end_as_decoded_at_once(
    tokenizers: dict[str, TextTokenizer], kind: str, data: st.DataObject
) -> None:
    tokens = data.draw(ids(tokenizers[kind].vocab_size))
    text = "".join(streamed(tokenizers[kind].decoder(), tokens))
    expected = at_once(tokenizers[kind], tokens)
    if kind == "byte level" or "\ufffd" not in expected:
        assert text == expected
    else:
        # Where a run of byte tokens is no UTF-8, decoding at once gives up on all of the run.
        kept = [piece for piece in re.split("\ufffd+", expected) if piece]
        place = 0
        for piece in kept:
            place = text.index(piece, place) + len(piece)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_no_part_is_taken_back(
    tokenizers: dict[str, TextTokenizer], kind: str, data: st.DataObject
) -> None:
    """What came for the first tokens is how the text of all of them begins."""
    tokens = data.draw(ids(tokenizers[kind].vocab_size))
    cut = data.draw(st.integers(0, len(tokens)))
    whole = "".join(streamed(tokenizers[kind].decoder(), tokens))
    decoder = tokenizers[kind].decoder()
    assert whole.startswith("".join(decoder.add(token) for token in tokens[:cut]))


@pytest.mark.parametrize("kind", BYTE_KINDS)
@pytest.mark.parametrize(
    "kept",
    [
        "é".encode()[:1],
        "語".encode()[:1],
        "語".encode()[:2],
        *("👧".encode()[:length] for length in (1, 2, 3)),
    ],
    ids=bytes.hex,
)
def test_an_unfinished_character_is_held_and_ends_as_one_replacement_g6_g9(
    tokenizers: dict[str, TextTokenizer], kind: str, kept: bytes
) -> None:
    tokenizer = tokenizers[kind]
    tokens = [*encoded(tokenizer, "a"), *(byte_token(tokenizer, byte) for byte in kept)]
    *parts, rest = streamed(tokenizer.decoder(), tokens)
    assert ("".join(parts), rest) == ("a", "\ufffd")


def byte_token(tokenizer: TextTokenizer, byte: int) -> int:
    assert tokenizer._pieces is not None
    table = tokenizer._pieces.table
    # A token of its own for the byte, not one for the character with that number.
    return next(n for n, piece in enumerate(table) if piece == bytes([byte]))


@pytest.mark.parametrize("kind", BYTE_KINDS)
def test_each_byte_of_an_emoji_may_come_alone_g5_g9(
    tokenizers: dict[str, TextTokenizer], kind: str
) -> None:
    tokenizer = tokenizers[kind]
    tokens = [byte_token(tokenizer, byte) for byte in FAMILY.encode()]
    parts = [part for part in streamed(tokenizer.decoder(), tokens) if part]
    assert parts == list(FAMILY)


def test_tokens_past_the_vocabulary_have_no_text(tokenizer: TextTokenizer) -> None:
    tokens = [*encoded(tokenizer, "the"), tokenizer.vocab_size + 5]
    assert "".join(streamed(tokenizer.decoder(), tokens)) == at_once(tokenizer, tokens[:-1])


@pytest.mark.parametrize("kind", BYTE_KINDS)
def test_special_tokens_are_left_out_and_other_added_ones_are_text(
    tokenizers: dict[str, TextTokenizer], kind: str
) -> None:
    tokenizer = tokenizers[kind]
    added = tokenizer._tokenizer.added_tokens_decoder
    for number, token in added.items():
        text = "".join(streamed(tokenizer.decoder(), [number]))
        assert text == ("" if token.special else token.content)


# ---- special tokens that are shown --------------------------------------------------------

MARKS = {"byte level": "<|im_start|>", **dict.fromkeys(KINDS[1:], "<s>")}


@pytest.mark.parametrize("kind", KINDS)
@given(parts=st.lists(st.sampled_from(["the cat", " sat", "on", "  ", ".", "\n"]), max_size=6))
@example(parts=["", "the cat"])
@example(parts=["the cat", "", ""])
def test_a_special_token_that_is_shown_stands_where_it_was_said(
    tokenizers: dict[str, TextTokenizer], kind: str, parts: list[str]
) -> None:
    tokenizer, mark = tokenizers[kind], MARKS[kind]
    number = tokenizer.special_tokens[mark]
    tokens, texts = list[int](), list[str]()
    for part in parts:
        tokens += [*encoded(tokenizer, part), number]
        texts.append(part)
    shown = "".join(streamed(tokenizer.decoder(shown=frozenset({number})), tokens))
    hidden = "".join(streamed(tokenizer.decoder(), tokens))
    assert shown.count(mark) == len(parts)
    assert shown.replace(mark, "").split() == hidden.split()
    if kind == "byte level":
        assert shown == "".join(f"{text}{mark}" for text in texts)


@pytest.mark.parametrize("kind", KINDS)
def test_the_others_stay_hidden(tokenizers: dict[str, TextTokenizer], kind: str) -> None:
    tokenizer = tokenizers[kind]
    numbers = set(tokenizer.special_tokens.values())
    for number in numbers:
        decoder = tokenizer.decoder(shown=frozenset(numbers - {number}))
        assert "".join(streamed(decoder, [number])) == ""


def test_showing_tokens_to_one_row_changes_nothing_for_another(
    tokenizers: dict[str, TextTokenizer],
) -> None:
    tokenizer = tokenizers["byte level"]
    number = tokenizer.special_tokens["<|im_start|>"]
    tokenizer.decoder(shown=frozenset({number}))
    assert "".join(streamed(tokenizer.decoder(), [number])) == ""


# ---- where a text goes on -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "begins"),
    [
        (None, "the"),
        (Prompt(messages=()), "the"),
        (Prompt(messages=(), continue_final=True), " the"),
        (Prompt(text="x"), " the"),
        (Prompt(tokens=(5,)), " the"),
    ],
    ids=["unknown", "new turn", "open turn", "text", "tokens"],
)
def test_a_first_space_is_dropped_only_where_a_text_begins(
    tokenizers: dict[str, TextTokenizer], prompt: Prompt | None, begins: str
) -> None:
    """Llama 2's pieces begin with a space that only the first of a text must lose."""
    tokenizer = tokenizers["byte fallback, stripped"]
    tokens = encoded(tokenizer, "the cat")
    assert "".join(streamed(tokenizer.decoder(prompt), tokens)) == f"{begins} cat"


def test_a_first_space_of_a_byte_level_model_is_text(
    tokenizers: dict[str, TextTokenizer],
) -> None:
    tokenizer = tokenizers["byte level"]
    for prompt in (Prompt(text="x"), Prompt(messages=())):
        decoder = tokenizer.decoder(prompt)
        assert "".join(streamed(decoder, encoded(tokenizer, " the"))) == " the"


# ---- the window, which knows no table ------------------------------------------------------


@pytest.mark.parametrize("kind", BYTE_KINDS)
@given(text=texts)
@example(text=f" ďábel {FAMILY} 日本")
def test_the_window_gives_the_same_text(
    tokenizers: dict[str, TextTokenizer], kind: str, text: str
) -> None:
    tokenizer = tokenizers[kind]
    parts = streamed(WindowDecoder(tokenizer._decode), encoded(tokenizer, text))
    assert "".join(parts) == text
    assert all("\ufffd" not in part for part in parts)


@given(data=st.data())
def test_the_window_lets_go_of_bytes_that_never_become_a_character(
    tokenizers: dict[str, TextTokenizer], data: st.DataObject
) -> None:
    tokenizer = tokenizers["byte level"]
    tokens = data.draw(ids(tokenizer.vocab_size))
    expected = at_once(tokenizer, tokens)
    decoder = WindowDecoder(tokenizer._decode)
    text = "".join(streamed(decoder, tokens))
    assert text.rstrip("\ufffd") == expected.rstrip("\ufffd")


def test_the_window_stays_short(tokenizers: dict[str, TextTokenizer]) -> None:
    tokenizer = tokenizers["byte level"]
    longest = 0

    def decode(tokens: Sequence[int]) -> str:
        nonlocal longest
        longest = max(longest, len(tokens))
        return tokenizer._decode(tokens)

    junk = [byte_token(tokenizer, 0xFF)] * 50 + encoded(tokenizer, "the cat") * 10
    streamed(WindowDecoder(decode), junk)
    assert longest < 10


# ---- which of the two ---------------------------------------------------------------------


def test_tables_are_made_for_the_kinds_that_have_one(
    tokenizers: dict[str, TextTokenizer],
) -> None:
    made = {kind: type(tokenizer.decoder()) for kind, tokenizer in tokenizers.items()}
    assert made == {**dict.fromkeys(BYTE_KINDS, PieceDecoder), "metaspace": WindowDecoder}
