"""A tokenizer that anybody can read: a token is a byte, or one of the given words."""

from __future__ import annotations

import codecs
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from headrace.runtime.constraints import Grammar
from headrace.runtime.contracts import Message, Prompt
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.ports import CallParser, RowMask, TemplateTraits

_BYTES = 256


class ScriptedTokenizer:
    """Ids 0 to 255 are the bytes of UTF-8, 256 ends a row, 257 and up are `words` in order.

    Letters of ASCII are therefore one token each, and other characters several, of which a
    script may say only some. Encoding takes the longest word that fits, else a byte. Words that
    are `special` too are left out of decoded text unless a decoder is told to show them.

    `template` is only looked at to tell how a model writes; `render` is what renders.
    """

    end_token = _BYTES

    def __init__(
        self,
        words: Iterable[str] = (),
        *,
        special: Collection[str] = (),
        template: str = "",
        traits: TemplateTraits | None = None,
    ) -> None:
        self.words = (*words, *special)
        self.template = template
        self.traits = traits if traits is not None else TemplateTraits()
        self.declared_calls: str | None = None
        self._ids = {word.encode(): _BYTES + 1 + at for at, word in enumerate(self.words)}
        self._longest_first = sorted(self._ids, key=len, reverse=True)
        self.special_tokens = {word: self._ids[word.encode()] for word in special}
        # How many prompts were built.
        self.builds = 0

    @property
    def end_tokens(self) -> frozenset[int]:
        return frozenset({self.end_token})

    @property
    def vocab_size(self) -> int:
        return _BYTES + 1 + len(self.words)

    def call_parser(self, name: str) -> CallParser | None:
        return None

    def special(self, text: str) -> int | None:
        return None

    def warm(self) -> None:
        """There is nothing to make ready."""

    def compile(self, grammar: Grammar) -> RowMask:
        raise RequestError(Code.UNSUPPORTED_EXECUTION, "scripted rows say what their script says")

    def has_token(self, text: str) -> bool:
        return text in self.words

    def token_bytes(self, token: int) -> bytes:
        return b"" if token in self.special_tokens.values() else self.bytes_of(token)

    def render(self, prompt: Prompt, tools: Sequence[dict[str, Any]] = ()) -> str:
        """A turn is rendered as `role: content` and a newline; the answer's turn is opened."""
        self.builds += 1
        if prompt.tokens is not None:
            return ""
        return prompt.text if prompt.text is not None else _render(prompt)

    def build(self, prompt: Prompt) -> tuple[int, ...]:
        text = self.render(prompt)
        if prompt.tokens is not None:
            return self._checked(prompt.tokens)
        return self.encode(text) or (ord("\n"),)

    def _checked(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        for at, token in enumerate(tokens):
            if not 0 <= token < self.vocab_size:
                reason = f"no token has the id {token}"
                raise RequestError(Code.INVALID_TOKEN_ID, reason, param=f"prompt[{at}]")
        return tokens

    def encode(self, text: str) -> tuple[int, ...]:
        if not self._ids:
            return tuple(text.encode())
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

    def decoder(
        self, prompt: Prompt | None = None, shown: frozenset[int] = frozenset()
    ) -> ScriptedDecoder:
        return ScriptedDecoder(self, frozenset(self.special_tokens.values()) - shown)


class ScriptedDecoder:
    """Holds the bytes of an unfinished character until the rest has come."""

    def __init__(self, tokenizer: ScriptedTokenizer, hidden: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._hidden = hidden
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token: int) -> str:
        if token in self._hidden:
            return ""
        return self._utf8.decode(self._tokenizer.bytes_of(token))

    def flush(self) -> str:
        return self._utf8.decode(b"", final=True)


def _render(prompt: Prompt) -> str:
    turns = "".join(f"{turn.role}: {_content(turn)}\n" for turn in prompt.messages or ())
    return turns.removesuffix("\n") if prompt.continue_final else f"{turns}assistant: "


def _content(turn: Message) -> str:
    return turn.content + "".join(json.dumps(call) for call in turn.tool_calls)
