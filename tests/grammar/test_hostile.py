"""Grammars made to hurt: none takes the process down, and none keeps its thread for long."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from headrace.actors.grammar.answer import answer_form
from headrace.actors.grammar.schema import NESTED, checked
from headrace.actors.grammar.value import CHOICES, LARK_LINES
from headrace.runtime.constraints import Constraint
from headrace.runtime.errors import Code, RequestError

Held: TypeAlias = Any

# Of processor time: far more than any of these needs, far less than a client would wait.
SECONDS = 8.0


def chain(length: int, part: Callable[[Any], Any]) -> Any:
    """Definitions that each lead to the next."""
    definitions: dict[str, Any] = {str(length): {"type": "null"}}
    for number in range(length):
        definitions[str(number)] = part({"$ref": f"#/$defs/{number + 1}"})
    return {"$ref": "#/$defs/0", "$defs": definitions}


def nested(depth: int) -> Any:
    schema: Any = {"type": "null"}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def power(parts: int) -> Any:
    """Alternatives that multiply."""
    pairs = [{"required": [f"a{i}"]} for i in range(4)]
    return {"properties": {}, "allOf": [{"anyOf": pairs} for _ in range(parts)]}


def growing() -> Any:
    """Each level of it has more to join than the one before."""
    a = {"properties": {"p": {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/X"}]}}}
    x = {"properties": {"p": {"properties": {"p": {"$ref": "#/$defs/X"}, "q": {"minimum": 1}}}}}
    return {"$ref": "#/$defs/A", "$defs": {"A": a, "X": x}}


properties = {f"property_{i}": {"type": "string"} for i in range(400)}
SCHEMAS: dict[str, Any] = {
    "a chain of references": chain(2000, lambda ref: {"properties": {"a": ref}}),
    "a chain of bare references": chain(4000, lambda ref: ref),
    "a chain of deep parts": chain(300, lambda ref: {"items": {"items": {"items": ref}}}),
    "as deep a chain as is let through": chain(NESTED // 2 - 2, lambda ref: {"items": ref}),
    "deep nesting": nested(30),
    "deeper nesting": nested(400),
    "alternatives that multiply": power(8),
    "something that grows": growing(),
    "many properties": {"properties": properties},
    "many properties and others": {"properties": properties, "additionalProperties": True},
    "too many properties": {"properties": {str(i): {} for i in range(2000)}},
    "a long enum": {"enum": [f"word {i}" for i in range(5000)]},
    "too long an enum": {"enum": list(range(6000))},
    "a great text": {"title": "x" * (300 << 10)},
    "long texts": {"minLength": 16000, "maxLength": 10**9},
    "longer texts": {"minLength": 10**9},
    "long lists": {"items": {"type": "integer"}, "minItems": 16000, "maxItems": 10**9},
    "a costly pattern": {"pattern": "^(a|b|ab|ba){0,800}(.{0,90}x){0,90}$", "maxLength": 5000},
    "patterns at odds": {"allOf": [{"pattern": f"{c}.{{50}}"} for c in "abcdefgh"]},
}
LARKS = {
    "a chain of rules": "start: a0\n"
    + "".join(f"a{i}: a{i + 1}\n" for i in range(LARK_LINES - 4))
    + f'a{LARK_LINES - 4}: "x"\n',
    "a chain of terminals": "start: A0\n"
    + "".join(f"A{i}: A{i + 1}\n" for i in range(LARK_LINES - 4))
    + f'A{LARK_LINES - 4}: "x"\n',
    "brackets": "start: " + "(" * 7000 + '"a"' + ")" * 7000,
    "repetitions": 'start: ((("a" | b){1000}){1000}){1000}\nb: "c"{1000} "d"',
    "both and not": "start: A\nA: /.*a.{90}/ & /.*b.{90}/ & ~/.*c.{90}/",
    "ambiguity": "start: e*\ne: e e | /[a-z]/ | /[a-z]+/ | /[a-z]{1,90}/",
    "references in a schema": 'start: %json {"$ref":"#/$defs/0","$defs":{'
    + ",".join(f'"{i}":{{"items":{{"$ref":"#/$defs/{i + 1}"}}}}' for i in range(370))
    + ',"370":{}}}',
    "a schema's nesting": "start: %json " + '{"items":' * 1500 + "{}" + "}" * 1500,
}
REGEXES = {
    "repetitions": "(.{0,90}a){0,90}b",
    "groups": "(" * 2000 + "a" + ")" * 2000,
    "classes": r"(\w{0,90}\s){0,90}x",
    "alternatives": "(a|b|ab|ba|abc){1,900}c",
}
HOSTILE = {
    **{f"schema, {name}": Constraint("json_schema", schema) for name, schema in SCHEMAS.items()},
    **{f"lark, {name}": Constraint("lark", text) for name, text in LARKS.items()},
    **{f"regex, {name}": Constraint("regex", text) for name, text in REGEXES.items()},
    "choice": Constraint("choice", tuple("x" * 60 + str(i) for i in range(CHOICES))),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_grammar_is_refused_or_bearable(held: Held, name: str) -> None:
    outcome = list[Any]()
    # On a thread, as in a server: its stack is the smaller one.
    thread = threading.Thread(target=lambda: outcome.append(attempt(held, HOSTILE[name])))
    began = time.process_time()
    thread.start()
    thread.join()
    assert time.process_time() - began < SECONDS
    (error,) = outcome
    if error is not None:
        assert error.code in (Code.INVALID_SCHEMA, Code.INVALID_GRAMMAR)
        assert len(str(error)) < 400


def attempt(held: Held, constraint: Constraint) -> RequestError | None:
    """Compile it, and go a few steps if it can be compiled."""
    try:
        form = answer_form(constraint, None, None, "after", held.compiler.special)
        assert form is not None
        row = held.compiler.compile(form.grammar)
    except RequestError as error:
        return error
    for _ in range(30):
        allowed = held.allowed(row) if row.broken is None else []
        if not allowed:
            break
        row.consume(allowed[len(allowed) // 2])
    return None


def test_what_is_refused_by_size_says_so() -> None:
    for name in ("a chain of references", "deeper nesting", "too many properties"):
        with pytest.raises(RequestError, match=r"too large"):
            checked(SCHEMAS[name])


def test_a_limit_stands_well_below_what_a_stack_bears() -> None:
    """The library recurses on the thread's stack, and overrunning that ends the process."""
    code = f"""
import json, threading
from llguidance import LLMatcher, LLTokenizer
definitions = {{str(i): {{"items": {{"$ref": f"#/$defs/{{i + 1}}"}}}} for i in range({NESTED})}}
definitions["{NESTED}"] = {{}}
schema = json.dumps({{"$ref": "#/$defs/0", "$defs": definitions}})
def compile():
    text = LLMatcher.grammar_from_json_schema(schema)
    print(LLMatcher(LLTokenizer("byte"), text).is_error())
thread = threading.Thread(target=compile)
thread.start()
thread.join()
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
