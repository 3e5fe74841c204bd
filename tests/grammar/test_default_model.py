"""The default model's words, held to grammars in one batch with rows that are free. Its weights
matter to none of it: `make slow` tries it with them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import jsonschema
import mlx.core as mx
import numpy as np
import pytest
from tokenizers import Tokenizer

from headrace.actors.engine.blas import use_fast_blas
from headrace.actors.engine.constrain import GrammarCompiler, RowMatcher
from headrace.actors.engine.load import MlxLoader
from headrace.actors.grammar.answer import answer_form
from headrace.actors.text.formats import HERMES
from headrace.actors.text.markup import TaggedMarkup
from headrace.actors.text.reasoning import THINK
from headrace.runtime.constraints import Constraint
from headrace.runtime.contracts import Message, Prompt, Sampling, Tool, ToolUse
from headrace.runtime.ports import LoadedModel, RowSpec
from headrace.runtime.testing.answers import WholeAnswer, parse

Held: TypeAlias = Any

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
    },
    "required": ["name", "age"],
}
PICK = {"anyOf": [{"const": "yes"}, {"type": "null"}, {"type": "boolean"}]}
DAY = {"type": "object", "properties": {"day": {"format": "date"}}, "required": ["day"]}
SCHEMAS: list[dict[str, Any]] = [PERSON, PICK, DAY]
REGEXES = [r"[A-Z][a-z]{2,8} \d{1,3}", r"(red|green|blue)(, (red|green|blue)){1,2}"]
CALL: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
}


def definition_of(folder: Path) -> str:
    return (folder / "tokenizer.json").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def loaded(weightless_model: Path) -> Iterator[LoadedModel]:
    use_fast_blas()
    mx.set_default_device(mx.cpu)
    loaded = MlxLoader()(str(weightless_model), lambda share: None)
    yield loaded
    loaded.engine.close()


@pytest.fixture(scope="module")
def compiler(loaded: LoadedModel, weightless_model: Path) -> GrammarCompiler:
    size = loaded.info.vocab_size
    return GrammarCompiler(
        definition_of(weightless_model),
        table=[loaded.tokenizer.token_bytes(token) for token in range(size)],
        end_tokens=loaded.tokenizer.end_tokens,
        vocab_size=size,
    )


def held_to(compiler: GrammarCompiler, constraint: Constraint) -> RowMatcher:
    form = answer_form(constraint, None, None, "after", compiler.special)
    assert form is not None
    return compiler.compile(form.grammar)


def spec(
    loaded: LoadedModel, row: int, asked: str, mask: RowMatcher | None, max_tokens: int
) -> RowSpec:
    tokens = loaded.tokenizer.build(Prompt(messages=(Message("user", asked),)))
    return RowSpec(row, tokens, Sampling(seed=row, temperature=1.0), max_tokens, mask=mask)


def answers(loaded: LoadedModel, specs: list[RowSpec]) -> list[str | None]:
    """What each row says to its end, in one batch; None for one that is cut."""
    engine, ends = loaded.engine, loaded.tokenizer.end_tokens
    said: dict[int, list[int]] = {row.row: [] for row in specs}
    ended: dict[int, str] = {}
    for row in specs:
        engine.add(row)
        while left := engine.remaining(row.row):
            engine.prefill([(row.row, left)])
    most = {row.row: row.max_tokens for row in specs}
    while most:
        result = engine.decode()
        assert not result.failed
        for drawn in result.tokens:
            if drawn.row not in most:
                continue
            if drawn.token in ends:
                ended[drawn.row] = text_of(loaded, said[drawn.row])
            else:
                said[drawn.row].append(drawn.token)
            if drawn.token in ends or len(said[drawn.row]) >= most[drawn.row]:
                engine.remove(drawn.row)
                del most[drawn.row]
    return [ended.get(row.row) for row in specs]


def text_of(loaded: LoadedModel, tokens: list[int]) -> str:
    decoder = loaded.tokenizer.decoder()
    return "".join(map(decoder.add, tokens)) + decoder.flush()


@pytest.mark.slow  # `tests/actors/test_held_rows.py` has such rows in one batch of a runtime
def test_rows_with_and_without_grammars_in_one_batch_n1(
    loaded: LoadedModel, compiler: GrammarCompiler
) -> None:
    schemas = [held_to(compiler, Constraint("json_schema", schema)) for schema in SCHEMAS]
    regexes = [held_to(compiler, Constraint("regex", pattern)) for pattern in REGEXES]
    masks = [None, *schemas, None, *regexes]
    specs = [
        spec(loaded, row, "Describe a friend.", mask, 8 if mask is None else 50)
        for row, mask in enumerate(masks, 1)
    ]
    said = answers(loaded, specs)
    ended = 0
    for text, schema in zip(said[1:4], SCHEMAS, strict=True):
        if text is not None:
            ended += 1
            jsonschema.validate(json.loads(text), schema)
    for text, pattern in zip(said[5:7], REGEXES, strict=True):
        assert text is not None
        assert re.fullmatch(pattern, text)
    assert ended >= 2


@pytest.mark.slow  # `tests/actors/test_held_rows.py` has such rows in one batch of a runtime
def test_a_model_without_call_markup_calls_a_tool_all_the_same_l6(
    loaded: LoadedModel, compiler: GrammarCompiler
) -> None:
    use = ToolUse((Tool("count", CALL), Tool("stop", None)), "required", parallel=False)
    form = answer_form(None, use, None, "after", compiler.special)
    assert form is not None
    mask = compiler.compile(form.grammar)
    asked = "Count to three with a tool."
    specs = [spec(loaded, row, asked, mask.fork(), 60) for row in (1, 2)]
    tools: dict[str, Any] = {"count": CALL, "stop": {}}
    assert form.markup == TaggedMarkup(None, HERMES)
    for text in answers(loaded, specs):
        assert text is not None
        answer = WholeAnswer.of(parse(form.markup, tools, [text], start="after"))
        (call,) = answer.calls
        assert call.complete
        assert answer.content == ""
        jsonschema.validate(json.loads(call.arguments), tools[call.name])


def test_a_schema_after_a_plain_row_after_a_schema_f5(
    loaded: LoadedModel, compiler: GrammarCompiler
) -> None:
    mask = held_to(compiler, Constraint("json_schema", PICK))
    for round_ in range(3):
        masks = [mask.fork() if (round_ + row) % 2 else None for row in range(2)]
        specs = [spec(loaded, row, "Yes or no?", masks[row], 6) for row in range(2)]
        for text, held in zip(answers(loaded, specs), masks, strict=True):
            if held is not None:
                assert text is not None
                jsonschema.validate(json.loads(text), PICK)


def test_thoughts_that_are_closed_from_outside_end_in_the_form_n2(
    loaded: LoadedModel, compiler: GrammarCompiler
) -> None:
    markup = TaggedMarkup(THINK)
    form = answer_form(Constraint("json_schema", PICK), None, markup, "inside", compiler.special)
    assert form is not None
    mask = compiler.compile(form.grammar)
    closing = loaded.tokenizer.encode(markup.ending)
    engine, said = loaded.engine, {1: list[int](), 2: list[int]()}
    for row in said:
        held = mask.fork() if row == 1 else None
        engine.add(spec(loaded, row, "Yes or no?", held, 60))
        engine.prefill([(row, engine.remaining(row))])
    ends = loaded.tokenizer.end_tokens
    for step in range(40):
        if step == 4:
            engine.force(1, closing)
        result = engine.decode()
        assert not result.failed
        for drawn in result.tokens:
            said[drawn.row].append(drawn.token)
        if said[1][-1] in ends:
            break
    for row in said:
        engine.remove(row)
    thoughts, mark, value = text_of(loaded, said[1][:-1]).partition(THINK.close)
    assert mark
    assert thoughts
    jsonschema.validate(json.loads(value), PICK)


@pytest.mark.slow
def test_twenty_small_schemas_at_once_n2(loaded: LoadedModel, compiler: GrammarCompiler) -> None:
    chance = random.Random(7)
    schemas = [small_schema(chance) for _ in range(20)]
    masks = [held_to(compiler, Constraint("json_schema", schema)) for schema in schemas]
    specs = [spec(loaded, row, "Give an example.", mask, 200) for row, mask in enumerate(masks, 1)]
    said = answers(loaded, specs)
    assert sum(text is not None for text in said) >= 10
    for text, schema in zip(said, schemas, strict=True):
        if text is not None:
            jsonschema.validate(json.loads(text), schema)


def small_schema(chance: random.Random) -> dict[str, Any]:
    leaves: list[dict[str, Any]] = [
        {"type": "integer", "minimum": 0, "maximum": 99},
        {"type": "string", "maxLength": 12},
        {"type": "boolean"},
        {"enum": ["red", "green", None, 3]},
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
        {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
    ]
    names = chance.sample(["id", "name", "kind", "size", "notes"], chance.randint(1, 4))
    properties = {name: chance.choice(leaves) for name in names}
    return {"type": "object", "properties": properties, "required": names[:2]}


@pytest.mark.parametrize("seed", range(4))
def test_random_walks_over_the_real_vocabulary_validate(
    loaded: LoadedModel, compiler: GrammarCompiler, seed: int
) -> None:
    chance = random.Random(seed)
    schema = [PERSON, PICK, DAY, small_schema(chance)][seed % 4]
    row = held_to(compiler, Constraint("json_schema", schema))
    mask, said = np.zeros(row.words, dtype=np.int32), list[int]()
    while not row.complete and len(said) < 300:
        row.fill(mask)
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()
        ending = [token for token in allowed if token in loaded.tokenizer.end_tokens]
        token = chance.choice(ending or allowed)
        row.consume(token)
        said += [] if ending else [token]
    assert row.broken is None
    if row.complete:
        jsonschema.validate(json.loads(text_of(loaded, said)), schema)


def test_what_leaves_no_choice_is_said_in_the_tokenizers_own_tokens(
    compiler: GrammarCompiler, loaded: LoadedModel
) -> None:
    text = "The quick brown fox jumps over the lazy dog."
    usual = loaded.tokenizer.build(Prompt(text=text))
    row = held_to(compiler, Constraint("choice", (text,)))
    mask, said = np.zeros(row.words, dtype=np.int32), list[int]()
    while not row.complete:
        row.fill(mask)
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
        said.append(int(allowed[0]))
        row.consume(said[-1])
    assert said == list(usual)[-len(said) :]


def test_special_tokens_are_those_that_say_nothing(
    compiler: GrammarCompiler, loaded: LoadedModel, weightless_model: Path
) -> None:
    for name, number in Tokenizer.from_str(definition_of(weightless_model)).get_vocab().items():
        if loaded.tokenizer.token_bytes(number):
            assert compiler.special(name) is None
        else:
            assert compiler.special(name) == number
