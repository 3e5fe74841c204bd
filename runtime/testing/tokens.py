"""A tokenizer that anybody can read: a token is a byte, or one of the given words."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable

from headrace.runtime.contracts import Message, Prompt
from headrace.runtime.errors import Code, RequestError

_BYTES = 256


class ScriptedTokenizer:
    """Ids 0 to 255 are the bytes of UTF-8, 256 ends a row, 257 and up are `words` in order.

    Letters of ASCII are therefore one token each, and other characters several, of which a
    script may say only some. Encoding takes the longest word that fits, else a byte.
    """

    end_token = _BYTES

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.words = tuple(words)
        self._ids = {word.encode(): _BYTES + 1 + at for at, word in enumerate(self.words)}
        self._longest_first = sorted(self._ids, key=len, reverse=True)
        # How many prompts were built.
        self.builds = 0

    @property
    def end_tokens(self) -> frozenset[int]:
        return frozenset({self.end_token})

    @property
    def vocab_size(self) -> int:
        return _BYTES + 1 + len(self.words)

    @property
    def template(self) -> str:
        return ""

    def has_token(self, text: str) -> bool:
        return text in self.words

    def token_bytes(self, token: int) -> bytes:
        return self.bytes_of(token)

    def render(self, prompt: Prompt) -> str:
        return prompt.text if prompt.text is not None else _render(prompt)

    def build(self, prompt: Prompt) -> tuple[int, ...]:
        """A turn is rendered as `role: content` and a newline; the answer's turn is opened."""
        self.builds += 1
        if prompt.tokens is not None:
            return self._checked(prompt.tokens)
        text = prompt.text if prompt.text is not None else _render(prompt)
        return self.encode(text) or (ord("\n"),)

    def _checked(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        for token in tokens:
            if not 0 <= token < self.vocab_size:
                raise RequestError(Code.INVALID_TOKEN_ID, f"no token has the id {token}")
        return tokens

    def encode(self, text: str) -> tuple[int, ...]:
        rest, tokens = text.encode(), []
        while rest:
            word = next((word for word in self._longest_first if rest.startswith(word)), rest[:1])
            tokens.append(self._ids.get(word, word[0]))
            rest = rest[len(word) :]
        return tuple(tokens)

    def bytes_of(self, token: int) -> bytes:
        """What the token stands for; the end token stands for nothing."""
        if token < _BYTES:
            return bytes((token,))
        return b"" if token == self.end_token else self.words[token - _BYTES - 1].encode()

    def text(self, tokens: Iterable[int]) -> str:
        return b"".join(map(self.bytes_of, tokens)).decode(errors="replace")

    def decoder(self, prompt: Prompt | None = None) -> ScriptedDecoder:
        return ScriptedDecoder(self)


class ScriptedDecoder:
    """Holds the bytes of an unfinished character until the rest has come."""

    def __init__(self, tokenizer: ScriptedTokenizer) -> None:
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token: int) -> str:
        return self._utf8.decode(self._tokenizer.bytes_of(token))

    def flush(self) -> str:
        return self._utf8.decode(b"", final=True)


def _render(prompt: Prompt) -> str:
    turns = "".join(f"{turn.role}: {_content(turn)}\n" for turn in prompt.messages or ())
    return turns.removesuffix("\n") if prompt.continue_final else f"{turns}assistant: "


def _content(turn: Message) -> str:
    return turn.content + "".join(json.dumps(call) for call in turn.tool_calls)
