"""A model's tokens as the grammar library wants them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from llguidance import LLTokenizer, TokenizerWrapper
from tokenizers import Tokenizer

# The library's sign of a token that is no text. The byte is in no UTF-8.
MARK = b"\xff"
# Of the tokens that are tried where the tokenizer itself is of no help.
LONGEST_BYTES = 64


class TokenTable(TokenizerWrapper):
    """The bytes of each token, and which text the tokenizer itself would make of bytes.

    The library asks for the latter where a grammar leaves no choice, so that a model sees tokens
    that it knows. Its own reading of tokenizer files takes every `<tag>` for a special token, and
    then trips over those that are text.
    """

    def __init__(self, tokenizer: Tokenizer, tokens: list[bytes], special: list[int]) -> None:
        # Its fields are set here one by one: the base class wants a tokenizer of another kind.
        self._tokenizer = tokenizer
        self.is_tokenizer_wrapper = True
        self.tokens = tokens
        self.special_token_ids = special
        self.eos_token_id = special[0]
        self.bos_token_id = None
        self._numbers: dict[bytes, int] | None = None

    def __call__(self, text: str) -> list[int]:
        """The usual tokens of a text, as long as they say just that; else the longest ones."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        known = [token for token in ids if token < len(self.tokens)]
        if b"".join(self.tokens[token] for token in known) == text.encode():
            return known
        return self._greedy(text.encode())

    def _greedy(self, rest: bytes) -> list[int]:
        if self._numbers is None:
            self._numbers = {token: number for number, token in enumerate(self.tokens)}
        ids = list[int]()
        while rest:
            sizes = range(min(len(rest), LONGEST_BYTES), 0, -1)
            size = next((size for size in sizes if rest[:size] in self._numbers), 0)
            if not size:  # as far as there are tokens
                return ids
            ids.append(self._numbers[rest[:size]])
            rest = rest[size:]
        return ids


class Vocabulary:
    """What grammars are compiled for.

    `definition` is the tokenizer as its library writes it to tokenizer.json, `table` the bytes
    that a row's text gets of each token, `size` the width of the model's logits.
    """

    def __init__(
        self, definition: str, table: Sequence[bytes], end_tokens: Iterable[int], size: int
    ) -> None:
        ends = sorted(end_tokens)
        self._tokenizer = _never_prefixing(definition)
        # Within a text the name of a special token is text.
        self._tokenizer.encode_special_tokens = True
        added = self._tokenizer.get_added_tokens_decoder()
        special = {number for number, token in added.items() if token.special} | set(ends)
        tokens = [table[number] if number < len(table) else b"" for number in range(size)]
        special |= {n for n, token in enumerate(tokens) if not token or token.startswith(MARK)}
        self._special = {number for number in special if number < size}
        for number in self._special:
            name = self._tokenizer.id_to_token(number) or f"<[{number}]>"
            tokens[number] = MARK + name.encode()
        ends = [number for number in ends if number < size]
        wrapped = TokenTable(self._tokenizer, tokens, [*ends, *(self._special - set(ends))])
        self.for_grammars = LLTokenizer(wrapped, eos_token=ends)
        # Width of a mask, in 32 tokens each.
        self.words = -(-size // 32)

    def special(self, text: str) -> int | None:
        """The token with this name, if it never stands for text."""
        number = self._tokenizer.token_to_id(text)
        return number if number in self._special else None


def _never_prefixing(definition: str) -> Tokenizer:
    """The tokenizer without the space that some put before every text."""
    tokenizer = Tokenizer.from_str(definition)
    parts = {
        "normalizer": _state(tokenizer.normalizer),
        "pre_tokenizer": _state(tokenizer.pre_tokenizer),
    }
    if _unprefixed(parts) == parts:  # most are: the whole need not be read and written once more
        return tokenizer
    return Tokenizer.from_str(json.dumps(_unprefixed(json.loads(definition))))


def _state(part: Any) -> Any:
    return None if part is None else json.loads(part.__getstate__())


def _unprefixed(definition: dict[str, Any]) -> dict[str, Any]:
    normalizer = definition.get("normalizer")
    steps = normalizer or {}
    given = steps.get("normalizers", [steps])
    kept = [step for step in given if step.get("type") != "Prepend"]
    if kept != given:
        normalizer = {"type": "Sequence", "normalizers": kept}
    return definition | {
        "normalizer": normalizer,
        "pre_tokenizer": _never_prepending(definition.get("pre_tokenizer")),
    }


def _never_prepending(step: Any) -> Any:
    if not step:
        return step
    parts = step.get("pretokenizers")
    if parts is not None:
        return step | {"pretokenizers": [_never_prepending(part) for part in parts]}
    if step.get("type") == "Metaspace":
        return step | {"prepend_scheme": "never"}
    return step | {"add_prefix_space": False} if "add_prefix_space" in step else step
