"""Computing prompts with what others have computed of them before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from headrace.actors.engine import prefill
from headrace.actors.engine.prefixes import Prefixes
from headrace.actors.engine.rows import Row
from headrace.runtime.ports import PromptScores, RowFailed

# The end of a longer prompt is computed by itself: what others would save is less than the copy.
_SHORT_TOKENS = 256

# Removes rows that an error has made unsound, and says what became of them.
Lose: TypeAlias = Callable[[Sequence[Row], Exception], list[RowFailed]]


class Prompts:
    """The prompts of an engine's rows. `together`: short ones can be computed in one pass."""

    def __init__(self, model: Any, prefixes: Prefixes, vocab_size: int, *, together: bool) -> None:
        self._model = model
        self._prefixes = prefixes
        self._vocab_size = vocab_size
        self._together = together

    def close(self) -> None:
        self._model = None

    def compute(self, todo: prefill.Todo, lose: Lose) -> tuple[list[RowFailed], list[PromptScores]]:
        """Advance rows by so many tokens each."""
        failed, scores = list[RowFailed](), list[PromptScores]()
        while todo:
            # Where prompts go on alike, the first computes it for all.
            wave, todo = prefill.apart(todo) if self._prefixes.grain else (todo, [])
            lost, found = self._compute(wave, lose)
            failed, scores = failed + lost, scores + found
            for row, _ in todo:
                self._prefixes.look(row)
            todo = [(row, row.remaining) for row, _ in todo if row.remaining]
        return failed, scores

    def _compute(
        self, todo: prefill.Todo, lose: Lose
    ) -> tuple[list[RowFailed], list[PromptScores]]:
        failed, scores = list[RowFailed](), list[PromptScores]()
        together = [row for row, _ in todo if _is_short(row)]
        if len(together) > 1 and self._together:
            try:
                self._compute_together(together)
            except Exception as error:
                failed += lose(together, error)
            todo = [(row, count) for row, count in todo if row not in together]
        for row, count in todo:
            try:
                found = self._compute_one(row, count)
            except Exception as error:
                failed += lose([row], error)
            else:
                scores += found
        return failed, scores

    def _compute_together(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._prefixes.take(row)
        prefill.remainders(self._model, rows)
        for row in rows:
            self._prefixes.keep_prompt(row)

    def _compute_one(self, row: Row, count: int) -> list[PromptScores]:
        self._prefixes.take(row)
        if not row.spec.scores_prompt:
            for size in self._prefixes.passes(row, count):
                prefill.chunk(self._model, row, size)
                self._prefixes.keep_prompt(row)
            return []
        first = row.computed + 1
        found = prefill.scored_chunk(self._model, row, count, self._vocab_size)
        return [PromptScores(row.spec.row, found, first)]


def _is_short(row: Row) -> bool:
    """Whether it may be computed with others, for which all of its KV is copied twice."""
    return not row.spec.scores_prompt and row.reach <= _SHORT_TOKENS
