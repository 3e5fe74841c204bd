"""How one model writes its answers, and how it is told of tools. Pure."""

from __future__ import annotations

import attrs

from headrace.actors.text.calls_parsed import ParsedCalls
from headrace.actors.text.choice import choose_calls, choose_markup
from headrace.actors.text.formats import CALL_FORMATS, HERMES
from headrace.actors.text.markup import Markup, TaggedMarkup
from headrace.actors.text.reasoning import ReasoningMarks
from headrace.runtime.ports import Tokenizer


@attrs.frozen
class Marked:
    """A markup, with the special tokens that belong to it and must be read as text."""

    markup: Markup
    shown: frozenset[int]


@attrs.frozen
class Dialect:
    """`plain` is the markup of answers without tools, None where they are nothing but text.

    Where a template shows no tools, or no format is known that its model would call them in, the
    tools are `described` to the model, with a format that goes for all models.
    """

    plain: Marked | None
    calling: Marked
    described: bool
    # The format of calls, as in `CALL_FORMATS`; None where it is none of those.
    calls: str | None

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Dialect:
        name, own = _own_markup(tokenizer)
        if own is not None and not isinstance(own, TaggedMarkup):
            marked = marked_by(own, tokenizer)
            return cls(marked, marked, described=False, calls=None)
        reasoning = None if own is None else _alone(own.reasoning)
        plain = None if reasoning is None else marked_by(TaggedMarkup(reasoning), tokenizer)
        if own is not None and own.calls is not None and tokenizer.traits.tools:
            calls = name if name in CALL_FORMATS else None
            return cls(plain, marked_by(own, tokenizer), described=False, calls=calls)
        calling = marked_by(TaggedMarkup(reasoning, HERMES), tokenizer)
        return cls(plain, calling, described=True, calls="json_tools")


def _own_markup(tokenizer: Tokenizer) -> tuple[str | None, Markup | None]:
    template, has_token = tokenizer.template, tokenizer.has_token
    name = tokenizer.declared_calls or choose_calls(template, has_token)
    parsed = {}
    if name is not None and (parser := tokenizer.call_parser(name)) is not None:
        parsed[name] = ParsedCalls.between(parser.opener, parser.closer, parser.parse)
    return name, choose_markup(template, has_token, declared=name, parsed=parsed)


def _alone(reasoning: ReasoningMarks | None) -> ReasoningMarks | None:
    """Marks of calls end no block where there are none."""
    return None if reasoning is None else attrs.evolve(reasoning, ended_by=())


def marked_by(markup: Markup, tokenizer: Tokenizer) -> Marked:
    """The markup as this tokenizer's tokens write it."""
    special = tokenizer.special_tokens.items()
    return Marked(markup, frozenset(number for text, number in special if markup.shows(text)))
