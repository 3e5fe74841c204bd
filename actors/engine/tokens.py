"""A model's tokenizer: prompts to token ids, and token ids back to text.

Plain CPU work without device arrays. Prompts may be built on one thread while rows are decoded on
another: a decoder reads nothing but a table made at the start, or decodes without changing state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from headrace.actors.engine.call_parsers import call_parser
from headrace.actors.engine.constrain import GrammarCompiler
from headrace.actors.engine.detokenize import PieceDecoder, Pieces, WindowDecoder, read_pieces
from headrace.actors.engine.pretrained import Pretrained, read_pretrained
from headrace.actors.engine.renderers import renderer_of, source_of
from headrace.actors.engine.template import ChatTemplate
from headrace.runtime.constraints import Grammar
from headrace.runtime.contracts import Prompt
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.ports import CallParser, Decoder, RowMask, TemplateTraits

# What begins a document where a tokenizer adds nothing by itself. It is asked before the BOS
# token, which is the begin of a turn in some chat models.
END_OF_TEXT = "<|endoftext|>"
# Spaces, a new line, punctuation and two alphabets: what a tokenizer may treat in a way of its own.
PROBE = " a , b .\n<n> Ünï 日本"


class TextTokenizer:
    """The `Tokenizer` port over what transformers and mlx-lm know of a tokenizer.

    `end_tokens` come on top of the tokenizer's own. `vocab_size` is the number of rows of the
    model's embedding, if known: ids past it are never built.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        *,
        end_tokens: Iterable[int] = (),
        vocab_size: int | None = None,
    ) -> None:
        self._pretrained = pretrained
        self._tokenizer = pretrained.tokenizer
        self._end_tokens = pretrained.end_tokens | frozenset(end_tokens)
        self._vocabulary = pretrained.vocabulary
        known = max(self._vocabulary.values()) + 1
        self._vocab_size: int = known if vocab_size is None else min(known, vocab_size)
        self._compiler: GrammarCompiler | None = None
        # How many logits there are for a token; the tokenizer may know fewer.
        self.logits = known if vocab_size is None else vocab_size
        self._special: dict[str, int] = {
            token.content: number
            for number, token in self._tokenizer.added_tokens_decoder.items()
            if token.special
        }
        self._hidden = frozenset(self._special.values())
        self._begin = self._automatic_begin()
        self._pieces = self._trusted_pieces()
        # The same with some special tokens shown; a model has a few such sets at most.
        self._showing: dict[frozenset[int], Pieces] = {}
        self._template = (
            ChatTemplate(renderer_of(pretrained)) if pretrained.has_chat_template else None
        )

    @classmethod
    def read(
        cls, folder: Path, *, end_tokens: Iterable[int] = (), vocab_size: int | None = None
    ) -> TextTokenizer:
        """From a model folder. Code that comes with a tokenizer is never run."""
        return cls(read_pretrained(folder), end_tokens=end_tokens, vocab_size=vocab_size)

    @property
    def end_tokens(self) -> frozenset[int]:
        return self._end_tokens

    @property
    def vocab_size(self) -> int:
        """Ids from here on are in no prompt."""
        return self._vocab_size

    @property
    def newline_tokens(self) -> frozenset[int]:
        """Tokens that are a new line and nothing else."""
        if self._pieces is None:
            return frozenset(self._encode("\n"))
        return frozenset(n for n, piece in enumerate(self._pieces.table) if piece == b"\n")

    @property
    def has_chat_template(self) -> bool:
        return self._template is not None

    @property
    def special_tokens(self) -> Mapping[str, int]:
        return self._special

    @property
    def template(self) -> str:
        return "" if self._template is None else source_of(self._pretrained, self._template)

    @property
    def traits(self) -> TemplateTraits:
        return TemplateTraits() if self._template is None else self._template.traits

    @property
    def declared_calls(self) -> str | None:
        """As in the tokenizer's settings, or as mlx-lm tells it from the template."""
        return self._pretrained.calls

    def call_parser(self, name: str) -> CallParser | None:
        return call_parser(name)

    def special(self, text: str) -> int | None:
        return self._grammars.special(text)

    def warm(self) -> None:
        self._grammars.warm()

    def compile(self, grammar: Grammar) -> RowMask:
        return self._grammars.compile(grammar)

    @property
    def _grammars(self) -> GrammarCompiler:
        if self._compiler is None:
            self._compiler = GrammarCompiler(
                self._tokenizer.backend_tokenizer.to_str(),
                table=None if self._pieces is None else self._pieces.table,
                end_tokens=self._end_tokens,
                vocab_size=self.logits,
            )
        return self._compiler

    def has_token(self, text: str) -> bool:
        return text in self._vocabulary

    def token_bytes(self, token: int) -> bytes:
        if token in self._hidden or token in self._end_tokens:
            return b""
        if self._pieces is not None:
            return self._pieces.table[token] or b""
        return self._decode((token,)).encode()

    def render(self, prompt: Prompt, tools: Sequence[dict[str, Any]] = ()) -> str:
        if prompt.tokens is not None:
            return ""
        if prompt.text is not None:
            return prompt.text
        if self._template is None:
            reason = "The model has no chat template, so it can only continue plain text."
            raise RequestError(Code.UNSUPPORTED_CAPABILITY, reason)
        return self._template.render(
            prompt.messages or (),
            continue_final=prompt.continue_final,
            args=prompt.template_args,
            tools=tools,
        )

    def encode(self, text: str) -> tuple[int, ...]:
        return self._checked(self._encode(text))

    def build(self, prompt: Prompt) -> tuple[int, ...]:
        """Token ids of a prompt: as given, of the raw text, or of the rendered messages, encoded
        exactly as rendered. Raises `RequestError` (template_error, unsupported_capability,
        invalid_token_id, invalid_value)."""
        if prompt.tokens is not None:
            return self._checked(prompt.tokens)
        if prompt.text is not None:
            return self._checked(self._document(prompt.text))
        return self.encode(self.render(prompt))

    def decoder(self, prompt: Prompt | None = None, shown: frozenset[int] = frozenset()) -> Decoder:
        """A decoder for the text that follows `prompt`. Where that is in the middle of a text, a
        first space is kept that the tokenizer would drop at a beginning."""
        pieces = self._pieces_showing(shown) if shown else self._pieces
        if pieces is None:
            decode = partial(self._decode, special=bool(shown))
            return WindowDecoder(decode, self._hidden - shown)
        return PieceDecoder(pieces, continuing=prompt is not None and _is_open(prompt))

    def _pieces_showing(self, shown: frozenset[int]) -> Pieces | None:
        if self._pieces is not None and shown not in self._showing:
            texts = {n: text.encode() for text, n in self._special.items() if n in shown}
            self._showing[shown] = self._pieces.showing(texts)
        return self._showing.get(shown)

    def _document(self, text: str) -> tuple[int, ...]:
        """Raw text with the begin token that the tokenizer adds to a document, and no end token.
        Text that brings its own begin token gets no second one."""
        tokens = self._encode(text)
        if tokens:
            begun = tokens[: len(self._begin)] == self._begin
            return tokens if begun else self._begin + tokens
        return self._begin or self._document_begin()

    def _document_begin(self) -> tuple[int, ...]:
        tokenizer = self._tokenizer
        end_of_text = self._vocabulary.get(END_OF_TEXT)
        for token in (end_of_text, tokenizer.bos_token_id, tokenizer.eos_token_id):
            if token is not None:
                return (token,)
        reason = "The model has no token that begins a document, so the prompt must hold text."
        raise RequestError(Code.UNSUPPORTED_CAPABILITY, reason, param="prompt")

    def _automatic_begin(self) -> tuple[int, ...]:
        begin = tuple(self._tokenizer.encode("", add_special_tokens=True)[:1])
        return begin if begin == (self._tokenizer.bos_token_id,) else ()

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False, verbose=False))

    def _decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        text: str = self._tokenizer.decode(
            tokens, skip_special_tokens=not special, clean_up_tokenization_spaces=False
        )
        return text

    def _checked(self, tokens: Sequence[int]) -> tuple[int, ...]:
        if not tokens:
            reason = "The prompt must come to at least one token."
            raise RequestError(Code.INVALID_VALUE, reason)
        if min(tokens) < 0 or max(tokens) >= self._vocab_size:
            at = next(at for at, token in enumerate(tokens) if not 0 <= token < self._vocab_size)
            size = self._vocab_size
            reason = f"Token id {tokens[at]} is outside the vocabulary of {size} tokens."
            raise RequestError(Code.INVALID_TOKEN_ID, reason, param=f"prompt[{at}]")
        return tuple(tokens)

    def _trusted_pieces(self) -> Pieces | None:
        """The table, if it says what the tokenizer says: some change text outside of the part
        that the table is read from."""
        if not self._tokenizer.is_fast:
            return None
        pieces = read_pieces(self._tokenizer.backend_tokenizer, self._vocabulary)
        if pieces is None:
            return None
        decoder = PieceDecoder(pieces, continuing=False)
        tokens = self._encode(PROBE)
        text = "".join(decoder.add(token) for token in tokens) + decoder.flush()
        return pieces if text == self._decode(tokens) else None


def _is_open(prompt: Prompt) -> bool:
    return prompt.messages is None or prompt.continue_final
