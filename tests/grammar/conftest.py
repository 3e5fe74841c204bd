"""A small tokenizer whose tokens reach across every joint of a JSON text, and rows walking at
random through a grammar."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from headrace.actors.engine.constrain import GrammarCompiler, RowMatcher
from headrace.actors.engine.detokenize import Pieces, read_pieces
from headrace.actors.grammar.schema import checked, json_grammar
from headrace.runtime.constraints import Grammar, Whitespace
from headrace.runtime.errors import Code

Build: TypeAlias = Callable[..., "Held"]

CORPUS = [
    json.dumps({"name": "Oslo", "days": [1, 2, 30], "ok": True, "none": None, "a": {"b": -0.5}}),
    json.dumps({"id": "x", "list": [{"a": "b"}, {"c": "d"}], "e": ""}, indent=2),
    '{"a":1,"b":[true,false,null],"c":{"d":"e"},"f":[[]],"g":{}}',
    "<tool_call>\n{}\n</tool_call>\n<think>\nyes\n</think>\n\n<function=f>\n<parameter=a>\n",
    "ďábel 👩‍👩‍👧 日本 2026-11-29T10:00:00Z 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
]
SPECIAL = [
    "<|im_end|>", "<|eot|>", "<|end|>", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>",
    "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>", "<|tool_calls_section_begin|>", "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>",
    "<start_function_call>", "<end_function_call>", "<escape>", "<|channel|>", "<|message|>",
    "<|start|>", "<|call|>", "<|return|>", "<|constrain|>", "[THINK]", "[/THINK]",
    "<longcat_tool_call>", "<longcat_arg_key>", "</longcat_arg_value>",
]  # fmt: skip
ENDS = ("<|im_end|>", "<|eot|>")
# What makes a text shorter rather than longer.
CLOSING = (b'"', b"}", b"]", b"null")
TAGS = (
    b"</parameter>", b"</arg_value>", b"</longcat_arg_value>", b"</atem:parameter>", b"<escape>",
    b'<|"|>', "</｜DSML｜parameter>".encode(), b"</think>",
)  # fmt: skip


def small_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=620,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=SPECIAL,
        max_token_length=6,
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    # A mark that is a token and yet text, as many models have it.
    tokenizer.add_tokens(["</tool_call>"])
    return tokenizer


def prefixing_tokenizer() -> Tokenizer:
    """One that puts a space before every text, and has a token for each byte."""
    names = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "é"]
    names += [*map(chr, range(33, 127)), "th", "the", "▁the"]
    vocabulary = {name: number for number, name in enumerate(names)}
    merges = [("t", "h"), ("th", "e"), ("▁", "the")]
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(["<unk>", "</s>"])
    return tokenizer


@attrs.frozen(eq=False, repr=False)
class Held:
    """A vocabulary whose rows can be held to grammars."""

    tokenizer: Tokenizer
    pieces: Pieces
    compiler: GrammarCompiler
    ends: frozenset[int]

    @classmethod
    def of(cls, tokenizer: Tokenizer, ends: Sequence[str]) -> Held:
        pieces = read_pieces(tokenizer, tokenizer.get_vocab())
        assert pieces is not None
        tokens = frozenset(n for end in ends if (n := tokenizer.token_to_id(end)) is not None)
        compiler = GrammarCompiler(
            tokenizer.to_str(),
            table=pieces.table,
            end_tokens=tokens,
            vocab_size=len(pieces.table),
        )
        return cls(tokenizer, pieces, compiler, tokens)

    def schema(self, schema: Any, *, whitespace: Whitespace = "short") -> RowMatcher:
        found = checked(schema)
        text = json_grammar(found.document(whitespace))
        suspects = found.suspects("schema")
        return self.compiler.compile(Grammar(text, suspects, Code.INVALID_SCHEMA, "schema"))

    def lark(self, text: str) -> RowMatcher:
        grammar = json.dumps({"grammars": [{"lark_grammar": text}]})
        return self.compiler.compile(Grammar(grammar))

    def allowed(self, matcher: RowMatcher) -> list[int]:
        """The tokens that may come next."""
        mask = np.zeros(matcher.words, dtype=np.int32)
        matcher.fill(mask)
        assert matcher.broken is None
        flags = np.unpackbits(mask.view(np.uint8), bitorder="little")
        return [int(token) for token in np.flatnonzero(flags)]

    def text(self, tokens: Sequence[int]) -> str:
        """What the tokens say; special ones by their names."""
        names = {self.tokenizer.token_to_id(name): name.encode() for name in SPECIAL}
        return b"".join(self.pieces.table[t] or names.get(t, b"") for t in tokens).decode()

    def accepts(self, matcher: RowMatcher, text: str) -> bool:
        """Whether the row may say exactly this, token by token, and then end."""
        row = matcher.fork()
        for token in self.tokenizer.encode(text, add_special_tokens=False).ids:
            if token not in self.allowed(row):
                return self._accepts_bytes(matcher, text)
            row.consume(token)
        return not self.ends.isdisjoint(self.allowed(row))

    def _accepts_bytes(self, matcher: RowMatcher, text: str) -> bool:
        """The same by the smallest tokens, where the usual ones reach across what is forced."""
        row = matcher.fork()
        rest = text.encode()
        while rest:
            fitting = [
                t for t in self.allowed(row) if rest.startswith(self.pieces.table[t] or b"\xff")
            ]
            if not fitting:
                return False
            token = max(fitting, key=lambda t: len(self.pieces.table[t]))
            row.consume(token)
            rest = rest[len(self.pieces.table[token]) :]
        return not self.ends.isdisjoint(self.allowed(row))

    def walk(
        self, matcher: RowMatcher, chance: random.Random, *, hasty_after: int = 30, most: int = 500
    ) -> str | None:
        """A random answer; None if it did not come to its end. Later on it hurries."""
        row, said, told = matcher.fork(), list[int](), b""
        for step in range(most):
            allowed = self.allowed(row)
            assert allowed, "a row that can neither go on nor end"
            hasty = step > hasty_after
            token = chance.choice(self._hasty(allowed, told, chance) if hasty else allowed)
            if token in self.ends:
                return self.text(said)
            row.consume(token)
            said.append(token)
            told += self.pieces.table[token]
        return None

    def _hasty(self, allowed: list[int], told: bytes, chance: random.Random) -> list[int]:
        """Those that end the answer, else those that end something in it. Whether that something
        ends with a tag or with a quote is not to be seen from here, so either is tried."""
        table = self.pieces.table
        special = [t for t in allowed if t in self.ends] or [t for t in allowed if not table[t]]
        if special:
            return special
        started = self._fitting(
            allowed, [tag[_begun(tag, told) :] for tag in TAGS if _begun(tag, told)]
        )
        closing = [t for t in allowed if table[t].startswith(CLOSING)]
        if started or (closing and chance.random() < 0.5):
            return started or closing
        return self._fitting(allowed, TAGS) or closing or allowed

    def _fitting(self, allowed: list[int], texts: Sequence[bytes]) -> list[int]:
        """The tokens that one of the texts begins with."""
        table = self.pieces.table
        return [t for t in allowed if table[t] and any(text.startswith(table[t]) for text in texts)]


def _begun(tag: bytes, told: bytes) -> int:
    """How much of the tag is there already."""
    sizes = range(len(tag) - 1, 0, -1)
    return next((size for size in sizes if told.endswith(tag[:size])), 0)


@pytest.fixture(scope="session")
def held() -> Held:
    return Held.of(small_tokenizer(), ENDS)


@pytest.fixture(scope="session")
def held_after_a_space() -> Held:
    return Held.of(prefixing_tokenizer(), ("</s>",))
