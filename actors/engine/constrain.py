"""Rows held to a grammar: compiled once, and then a set of allowed tokens for each step.

llguidance (github.com/guidance-ai/llguidance) follows the grammar; here is how a row uses it.
Compiling belongs on a thread of its own, matching on the engine's: a matcher is used by one thread
at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np
from llguidance import LLMatcher, LLParserLimits
from llguidance.numpy import fill_next_token_bitmask
from numpy.typing import NDArray

from headrace.actors.engine.refusals import grammar_error, suspect_error
from headrace.actors.engine.vocabulary import Vocabulary
from headrace.runtime.constraints import Grammar
from headrace.runtime.errors import Code, RequestError

# Compiled grammars that are kept for one model, and the sum of their texts.
KEPT = 64
KEPT_CHARACTERS = 4 << 20

Words = NDArray[np.int32]


class RowMatcher:
    """Where one row stands in its grammar. It is complete when nothing but the end may follow.

    `broken` says why the grammar could not be followed further, in words for the log. Such a row
    must be given up: what it would be allowed to say is not known.
    """

    __slots__ = ("_matcher", "broken", "complete", "words")

    def __init__(self, matcher: LLMatcher, words: int) -> None:
        self._matcher = matcher
        # Width of a mask, in 32 tokens each.
        self.words = words
        self.broken: str | None = None
        self.complete = False

    def fork(self) -> RowMatcher:
        """The same state for another row."""
        other = RowMatcher(self._matcher.deep_copy(), self.words)
        other.broken, other.complete = self.broken, self.complete
        return other

    def consume(self, token: int) -> None:
        """Go on by a token that the row has sampled; what follows the end is ignored."""
        if self.complete or self.broken is not None:
            return
        accepted = self._matcher.consume_token(token)
        self._look(accepted)

    def fill(self, mask: Words) -> None:
        """Set a bit for each token that may come next, least significant first; `mask` has
        `words` entries. A complete or broken row may only end."""
        fill_next_token_bitmask(self._matcher, mask[None], 0)
        self._look(accepted=True)

    def _look(self, accepted: bool) -> None:
        if self._matcher.is_error() or not accepted:
            self.broken = self._matcher.get_error() or "the token is not of the grammar"
        else:
            self.complete = self._matcher.is_stopped()


class GrammarCompiler:
    """Compiles grammars for one model's vocabulary, and keeps those that come again.

    The arguments are a `Vocabulary`'s, which is made by `warm`, or when it is first needed: that
    takes seconds for a large one. `table` is None for a model whose tokens are no pieces of text.
    """

    def __init__(
        self,
        definition: str,
        *,
        table: Sequence[bytes] | None,
        end_tokens: Iterable[int],
        vocab_size: int,
    ) -> None:
        self._definition = definition
        self._table = table
        self._end_tokens = frozenset(end_tokens)
        self._vocab_size = vocab_size
        self._vocabulary: Vocabulary | None = None
        self._kept: OrderedDict[str, RowMatcher] = OrderedDict()
        self._limits = LLParserLimits(max_lexer_states=50_000, verbose_errors=False)

    def warm(self) -> None:
        """Make the vocabulary, if the model has one that grammars can be compiled for."""
        if self._table is not None:
            self._known()

    def compile(self, grammar: Grammar) -> RowMatcher:
        """A matcher at the grammar's beginning. Raises `RequestError`: invalid_schema or
        invalid_grammar, unsupported_execution for a model that cannot be held to any."""
        kept = self._kept.get(grammar.text)
        if kept is None:
            kept = self._compiled(grammar)
            self._keep(grammar.text, kept)
        self._kept.move_to_end(grammar.text)
        return kept.fork()

    def special(self, text: str) -> int | None:
        """The token with this name, if it never stands for text. Raises `RequestError`
        (unsupported_execution)."""
        return self._known().special(text)

    def _compiled(self, grammar: Grammar) -> RowMatcher:
        matcher, error = self._tried(grammar.text)
        if error is None:
            return RowMatcher(matcher, self._known().words)
        for suspect in grammar.suspects:
            _, own_error = self._tried(suspect.text)
            if own_error is not None:
                raise suspect_error(own_error, suspect)
        raise grammar_error(error, grammar)

    def _tried(self, text: str) -> tuple[LLMatcher, str | None]:
        """A matcher, and why it is of no use, if so. The first mask shows more than compiling
        does, and is kept."""
        tokenizer = self._known().for_grammars
        matcher = LLMatcher(tokenizer, text, log_level=0, limits=self._limits)
        if not matcher.is_error():
            mask = matcher.compute_bitmask()
            if not matcher.is_error():
                return matcher, None if any(mask) else "NoExtension"
        return matcher, matcher.get_error()

    def _keep(self, text: str, matcher: RowMatcher) -> None:
        self._kept[text] = matcher
        while len(self._kept) > KEPT or sum(map(len, self._kept)) > KEPT_CHARACTERS:
            self._kept.popitem(last=False)

    def _known(self) -> Vocabulary:
        if self._table is None:
            reason = "This model's tokenizer cannot be held to a grammar."
            details = {"reasons": ["tokenizer"]}
            raise RequestError(Code.UNSUPPORTED_EXECUTION, reason, details=details)
        if self._vocabulary is None:
            self._vocabulary = Vocabulary(
                self._definition, self._table, self._end_tokens, self._vocab_size
            )
        return self._vocabulary

    def __repr__(self) -> str:
        return f"<GrammarCompiler {len(self._kept)} of {KEPT} kept>"
