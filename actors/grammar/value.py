"""The value that an answer may be: JSON of a schema, a regular expression, a choice, a grammar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import msgspec

from headrace.actors.grammar.lark import Rules, either, quoted, slashed
from headrace.actors.grammar.schema import checked
from headrace.runtime.constraints import Constraint, Suspect
from headrace.runtime.errors import Code, RequestError

PATTERN_CHARACTERS = 4096
CHOICES = 1000
CHOICE_CHARACTERS = 64 << 10
# The library reads rules within rules on the thread's stack.
LARK_CHARACTERS, LARK_LINES = 16 << 10, 400
# The name by which a client's own grammar is called from ours.
OWN = "value"


@attrs.frozen
class Value:
    """`write` puts it into a grammar; `own` is a client's grammar that goes with that one."""

    write: Callable[[Rules], str]
    code: Code
    param: str | None
    suspects: tuple[Suspect, ...] = ()
    own: str | None = None


def value_of(constraint: Constraint) -> Value:
    """Raises `RequestError`: invalid_schema, invalid_grammar."""
    try:
        return _WAYS[constraint.kind](constraint)
    except RequestError as error:
        raise RequestError.of(attrs.evolve(error.info, param=constraint.param)) from None


def grammar_text(lark: str, own: str | None = None) -> str:
    """`Grammar.text` of a grammar and the client's grammar that it calls."""
    grammars = [{"lark_grammar": lark}]
    if own is not None:
        grammars.append({"name": OWN, "lark_grammar": own})
    return msgspec.json.encode({"grammars": grammars}).decode()


def _schema(constraint: Constraint) -> Value:
    document = constraint.value
    if isinstance(document, str):
        try:
            document = msgspec.json.decode(document)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RequestError(Code.INVALID_SCHEMA, "The schema is no JSON text.") from error
    found = checked(document)
    text = found.document(constraint.whitespace)
    suspects = found.suspects(constraint.param)
    return Value(lambda rules: rules.json(text), Code.INVALID_SCHEMA, constraint.param, suspects)


def _object(constraint: Constraint) -> Value:
    return _schema(attrs.evolve(constraint, value={"type": "object"}))


def _regex(constraint: Constraint) -> Value:
    pattern = constraint.value
    _check(len(pattern) <= PATTERN_CHARACTERS, f"may have {PATTERN_CHARACTERS} characters")
    body = slashed(pattern)
    return _grammar(constraint, lambda rules: rules.terminal(body), f"start: {body}\n")


def _choice(constraint: Constraint) -> Value:
    choices = constraint.value
    _check(0 < len(choices) <= CHOICES, f"is a choice of 1 to {CHOICES} texts")
    size = sum(map(len, choices))
    _check(size <= CHOICE_CHARACTERS, f"may have {CHOICE_CHARACTERS} characters")
    body = either([quoted(choice) for choice in dict.fromkeys(choices)])
    return _grammar(constraint, lambda rules: rules.terminal(body), f"start: {body}\n")


def _lark(constraint: Constraint) -> Value:
    text = constraint.value
    _check(len(text) <= LARK_CHARACTERS, f"may have {LARK_CHARACTERS} characters")
    _check(text.count("\n") < LARK_LINES, f"may have {LARK_LINES} lines")
    return attrs.evolve(_grammar(constraint, lambda rules: f"@{OWN}", text), own=text)


def _grammar(constraint: Constraint, write: Callable[[Rules], str], alone: str) -> Value:
    suspect = Suspect(
        grammar_text(alone),
        Code.INVALID_GRAMMAR,
        constraint.param,
        verbatim=constraint.kind == "lark",
    )
    return Value(write, Code.INVALID_GRAMMAR, constraint.param, (suspect,))


def _check(fits: bool, rule: str) -> None:
    if not fits:
        raise RequestError(Code.INVALID_GRAMMAR, f"The grammar is refused: it {rule}.")


_WAYS: dict[Any, Callable[[Constraint], Value]] = {
    "json_schema": _schema,
    "json_object": _object,
    "regex": _regex,
    "choice": _choice,
    "lark": _lark,
}
