"""What a client is told of a grammar that does not compile, from what the library says.

The library's errors quote the grammar at length and sometimes its own state; a client gets one
sentence with the place.
"""

from __future__ import annotations

import re

from headrace.runtime.constraints import Grammar, Suspect
from headrace.runtime.errors import Code, RequestError

REASON_CHARACTERS = 200

_POSITION = re.compile(r"(?:at )?(?P<line>\d{1,9})\((?P<column>\d{1,9})\): (?P<rest>.*)", re.DOTALL)
_REGEX_ERROR = re.compile(r"^error: (?P<reason>.*)$", re.MULTILINE)
_QUOTED_SYMBOL = re.compile(r" \(at \".*")

# Beginnings of the library's reasons, and what they come to.
_TRANSLATED = (
    ("Unsatisfiable schema", "no value can satisfy it"),
    ("Failed to generate regex", "its bounds are beyond what can be enforced"),
    ("Unable to determine", "its pattern is too complex"),
    ("lookarounds not supported", "a pattern may have ^ and $ at its ends only"),
    ("no start rule", "it has no rule named start"),
    # Why matching stopped, where it did so before it began.
    ("NoExtension", "nothing can ever satisfy it"),
    ("unknown special token", "it names a special token that the model does not have"),
    ("Unknown common regex", "it imports what there is not"),
)
_TOO_LARGE = ("panic", "too big", "too large", "fuel", "limit", "backtrace", "Too many")


def grammar_error(error: str, grammar: Grammar) -> RequestError:
    """For a grammar of which no part is to blame by itself."""
    text = f"The {_what(grammar.code)} is refused: {_reason(error)}."
    return RequestError(grammar.code, text, param=grammar.param)


def suspect_error(error: str, suspect: Suspect) -> RequestError:
    """For a part of which it is known that it does not compile by itself."""
    found = _POSITION.match(error)
    place, details = "", dict[str, str | int]()
    if suspect.path is not None:
        place, details = f"at {suspect.path}, ", {"path": suspect.path}
    elif suspect.verbatim and found is not None:
        details = {"line": int(found["line"]), "column": int(found["column"])}
        place = f"at line {found['line']}, column {found['column']}, "
    text = f"The {_what(suspect.code)} is refused: {place}{_reason(error)}."
    return RequestError(suspect.code, text, param=suspect.param, details=details or None)


def _what(code: Code) -> str:
    return "schema" if code is Code.INVALID_SCHEMA else "grammar"


def _reason(error: str) -> str:
    """The library's reason without its place and its quotations."""
    if (found := _POSITION.match(error)) is not None:
        error = found["rest"]
    if (regex_error := _REGEX_ERROR.search(error)) is not None:
        return f"its regular expression cannot be used: {regex_error['reason']}"
    if any(word in error for word in _TOO_LARGE):
        return "it is too large or too ambiguous"
    error = error.removeprefix("failed to compile JSON schema: ")
    for beginning, reason in _TRANSLATED:
        if error.startswith(beginning):
            return reason
    line = _QUOTED_SYMBOL.sub("", error.splitlines()[0] if error else "it cannot be read")
    return line[:REASON_CHARACTERS].rstrip(".")
