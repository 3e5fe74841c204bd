"""What an answer may consist of: as a client asks for it, and as an engine compiles it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import attrs

from headrace.runtime.errors import Code

ConstraintKind: TypeAlias = Literal["json_schema", "json_object", "regex", "choice", "lark"]
# What may stand between the tokens of a JSON text: nothing, or at each place at most one space or
# one new line with its indentation.
Whitespace: TypeAlias = Literal["none", "short"]


@attrs.frozen
class Constraint:
    """The form that an answer must have (wire contract 3.5).

    `value` is the schema, the pattern, the tuple of choices or the Lark text; None for
    json_object. `param` is the field it came in, for errors.
    """

    kind: ConstraintKind
    value: Any = None
    whitespace: Whitespace = "short"
    param: str | None = None


@attrs.frozen
class Suspect:
    """A part of a grammar that may be why it does not compile, as a grammar of its own."""

    text: str
    code: Code
    param: str | None = None
    # Where it stands in the client's own words, like `#/properties/age`; None for all of them.
    path: str | None = None
    # Whether the client wrote this very text, so that a line and a column mean something to it.
    verbatim: bool = False


@attrs.frozen
class Grammar:
    """All that an answer may be, as llguidance reads it: a JSON text of named grammars.

    Equal texts mean equal grammars, whoever asked for them. If it does not compile, the error is
    that of the first of `suspects` that does not compile by itself, else one with `code`.
    """

    text: str
    suspects: tuple[Suspect, ...] = ()
    code: Code = Code.INVALID_GRAMMAR
    param: str | None = None
