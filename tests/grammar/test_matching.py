"""One row in its grammar, and the masks of a batch of rows with and without one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, TypeAlias

import mlx.core as mx
import numpy as np
import pytest

from headrace.actors.engine.constrain import KEPT, GrammarCompiler
from headrace.actors.engine.masks import FLOOR, MaskBuffer
from headrace.actors.grammar.value import grammar_text
from headrace.runtime.constraints import Grammar
from headrace.runtime.errors import Code, RequestError

Held: TypeAlias = Any

INTEGER = {"type": "integer"}
OBJECT = {"properties": {"a": INTEGER}, "required": ["a"]}


def consume(held: Held, row: Any, text: str) -> None:
    for token in held.tokenizer.encode(text, add_special_tokens=False).ids:
        row.consume(token)


# ---- one row -----------------------------------------------------------------------------


def test_a_complete_row_may_only_end(held: Held) -> None:
    row = held.schema(OBJECT)
    consume(held, row, '{"a":1')
    assert not row.complete
    consume(held, row, "}")
    assert row.complete
    assert set(held.allowed(row)) == held.ends


def test_a_row_that_could_go_on_may_end_as_well(held: Held) -> None:
    row = held.schema(INTEGER)
    consume(held, row, "12")
    assert not row.complete
    assert set(held.allowed(row)) > held.ends


def test_the_end_completes_a_row_and_nothing_after_it_counts(held: Held) -> None:
    row = held.schema(INTEGER)
    consume(held, row, "12")
    row.consume(min(held.ends))
    assert row.complete
    consume(held, row, "x")
    assert row.complete
    assert row.broken is None


def test_forks_go_their_own_ways(held: Held) -> None:
    first = held.schema(OBJECT)
    consume(held, first, '{"a":1')
    second = first.fork()
    consume(held, first, "}")
    assert (first.complete, second.complete) == (True, False)
    consume(held, second, "2")
    assert held.accepts(second, "3}")
    assert first.fork().complete


def test_a_row_that_leaves_its_grammar_is_broken_and_stays_so(held: Held) -> None:
    row = held.schema(OBJECT)
    consume(held, row, "no")
    assert row.broken is not None
    assert not row.complete
    assert row.fork().broken == row.broken
    mask = np.zeros(row.words, dtype=np.int32)
    row.fill(mask)
    assert row.broken is not None


def test_marks_that_are_text_are_said_by_their_own_tokens(held: Held) -> None:
    mark = held.tokenizer.token_to_id("</tool_call>")
    row = held.lark('start: "a</tool_call>" /[0-9]/')
    consume(held, row, "a")
    assert held.allowed(row) == [mark]
    row.consume(mark)
    assert held.accepts(row, "7")


def test_special_tokens_are_no_text_and_text_is_no_special_token(held: Held) -> None:
    any_text = held.lark("start: /(?s:.*)/")
    special = {t for t, piece in enumerate(held.pieces.table) if not piece} - held.ends
    assert special
    assert special.isdisjoint(held.allowed(any_text))
    assert held.accepts(any_text, "<|im_end|>")


def test_ends_that_look_like_text_are_ends_only(held: Held) -> None:
    word = held.tokenizer.token_to_id("a")
    compiler = GrammarCompiler(
        held.tokenizer.to_str(),
        table=held.pieces.table,
        end_tokens=[word],
        vocab_size=len(held.pieces.table),
    )
    row = compiler.compile(Grammar(grammar_text('start: "b" /a+/')))
    assert word not in held.allowed(row)


def test_a_space_before_every_text_is_none_of_the_grammars(held_after_a_space: Held) -> None:
    held = held_after_a_space
    row = held.lark('start: "the the 日é"')
    said = []
    while not row.complete:
        (token,) = held.allowed(row)
        row.consume(token)
        said.append(held.tokenizer.id_to_token(token))
    assert said == ["the", "▁the", "▁", "<0xE6>", "<0x97>", "<0xA5>", "é"]
    walked = [held.walk(held.schema(OBJECT), random.Random(seed)) for seed in range(5)]
    assert all(set(json.loads(text)) == {"a"} for text in walked if text is not None)
    assert any(walked)


# ---- the compiler ------------------------------------------------------------------------


def lark(text: str) -> Grammar:
    return Grammar(grammar_text(text))


def compiler_of(held: Held, **changed: Any) -> GrammarCompiler:
    settings = {
        "table": held.pieces.table,
        "end_tokens": held.ends,
        "vocab_size": len(held.pieces.table),
    }
    return GrammarCompiler(held.tokenizer.to_str(), **(settings | changed))


def test_a_grammar_is_compiled_once_and_rows_do_not_meet_f5(held: Held) -> None:
    compiler = compiler_of(held)
    for round_ in range(25):
        row = compiler.compile(lark('start: "a" /[0-9]/'))
        assert held.accepts(row, f"a{round_ % 10}")
        consume(held, row, "a1")
    assert repr(compiler) == f"<GrammarCompiler 1 of {KEPT} kept>"


def test_the_oldest_grammars_are_forgotten(held: Held) -> None:
    compiler = compiler_of(held)
    for number in range(KEPT + 5):
        compiler.compile(lark(f'start: "{number}"'))
    assert repr(compiler) == f"<GrammarCompiler {KEPT} of {KEPT} kept>"


def test_a_tokenizer_without_pieces_cannot_be_held_to_anything(held: Held) -> None:
    with pytest.raises(RequestError) as caught:
        compiler_of(held, table=None).compile(lark('start: "a"'))
    assert caught.value.code is Code.UNSUPPORTED_EXECUTION
    assert caught.value.info.details == {"reasons": ["tokenizer"]}


@pytest.mark.parametrize("difference", [-40, 0, 13, 64])
def test_a_model_may_have_more_or_fewer_tokens_than_its_tokenizer(
    held: Held, difference: int
) -> None:
    size = len(held.pieces.table) + difference
    row = compiler_of(held, vocab_size=size).compile(lark("start: /(?s:.+)/"))
    assert row.words == -(-size // 32)
    allowed = held.allowed(row)
    assert allowed
    assert max(allowed) < min(size, len(held.pieces.table))


# ---- the masks of a batch ----------------------------------------------------------------


@pytest.fixture
def on_the_cpu() -> None:
    mx.set_default_device(mx.cpu)


def logits_of(rows: int, size: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, size)).astype(np.float32)


def test_each_row_has_its_own_mask_n1(held: Held, on_the_cpu: None) -> None:
    size = len(held.pieces.table)
    masks = [held.schema(INTEGER), None, held.lark('start: "a" | "b"'), None]
    buffer = MaskBuffer(masks, size)
    buffer.fill()
    logits = logits_of(4, size)
    before = logits.copy()
    masked = buffer.apply(np, logits)
    assert np.array_equal(logits, before)
    for row, mask in enumerate(masks):
        allowed = range(size) if mask is None else held.allowed(mask)
        expected = np.full(size, -np.inf, dtype=np.float32)
        expected[list(allowed)] = logits[row, list(allowed)]
        assert np.array_equal(masked[row], expected)
    on_device = np.asarray(buffer.apply(mx, mx.array(logits)))
    assert np.array_equal(on_device, masked)


@pytest.mark.parametrize("seed", range(8))
def test_a_mixed_batch_says_only_what_it_may_n1_f5(held: Held, seed: int, on_the_cpu: None) -> None:
    size, chance = len(held.pieces.table), random.Random(seed)
    makers: list[Callable[[], Any]] = [
        lambda: held.schema(OBJECT),
        lambda: held.lark("start: /[ab]{3}/"),
        lambda: None,
    ]
    masks = [chance.choice(makers)() for _ in range(chance.randrange(1, 9))]
    starts = [None if mask is None else mask.fork() for mask in masks]
    said: list[list[int]] = [[] for _ in masks]
    buffer = MaskBuffer(masks, size)
    xp = chance.choice([np, mx])
    for step in range(40):
        buffer.fill()
        logits = xp.array(logits_of(len(masks), size, 100 * seed + step))
        tokens = np.asarray(xp.argmax(buffer.apply(xp, logits), axis=-1)).tolist()
        for row, token in enumerate(tokens):
            if masks[row] is not None:
                masks[row].consume(token)
                said[row].append(token)
    for start, mask, tokens in zip(starts, masks, said, strict=True):
        if mask is not None and mask.complete:
            words = [token for token in tokens if token not in held.ends]
            assert held.accepts(start, held.text(words))
    assert all(mask.broken is None for mask in masks if mask is not None)


@pytest.mark.parametrize("xp", [np, mx], ids=["host", "device"])
def test_where_everything_allowed_is_biased_away_the_grammar_wins(
    held: Held, xp: Any, on_the_cpu: None
) -> None:
    size = len(held.pieces.table)
    row = held.lark('start: "a"')
    consume(held, row, "a")
    buffer = MaskBuffer([row, None], size)
    buffer.fill()
    logits = logits_of(2, size)
    logits[0, list(held.ends)] = -np.inf
    masked = np.asarray(buffer.apply(xp, xp.array(logits)))
    assert set(np.flatnonzero(masked[0] > -np.inf)) == held.ends
    assert masked[0].max() == np.float32(FLOOR)
    assert np.array_equal(masked[1], logits[1])


def test_a_batch_without_grammars_needs_no_masks(on_the_cpu: None) -> None:
    buffer = MaskBuffer([None, None], 100)
    buffer.fill()
    logits = logits_of(2, 100)
    assert not buffer.needed
    assert buffer.apply(np, logits) is logits
