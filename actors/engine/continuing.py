"""What is read behind a prompt: logits of labels after each of several continuations.

Those of like length are the rows of one pass over the prompt's KV, none of which sees another. A
pass alone reads all weights for a few dozen tokens; several together cost little more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias

import mlx.core as mx
import numpy as np

from headrace.actors.engine import forward, kv
from headrace.actors.engine.backbone import logits_at
from headrace.actors.engine.branches import branched, can_branch
from headrace.actors.engine.kv import Cache
from headrace.runtime.grouping import first_group
from headrace.runtime.ports import Continuation, RowSpec

# A continuation and its place among those that were asked for.
Asked: TypeAlias = tuple[int, Continuation]
LabelLogits: TypeAlias = tuple[float, ...]


class Continuations:
    """What is still to be read behind one prompt, the shortest first.

    The prompt's last token is computed with each of them, since a prompt is computed up to its
    last token.
    """

    def __init__(self, spec: RowSpec) -> None:
        last = spec.tokens[-1]
        asked = [(index, _after(last, more)) for index, more in enumerate(spec.continuations)]
        self._context_tokens = len(spec.tokens)
        self._todo = deque(sorted(asked, key=lambda one: len(one[1].tokens)))
        # Of the first one, if it is computed in parts: its KV, and how many of its tokens are in.
        self._cache: Cache | None = None
        self._done = 0
        self._logits: dict[int, LabelLogits] = {}

    @property
    def remaining(self) -> int:
        return sum(len(more.tokens) for _, more in self._todo) - self._done

    @property
    def logits(self) -> tuple[LabelLogits, ...]:
        """In the order in which they were asked for."""
        return tuple(self._logits[index] for index in sorted(self._logits))

    def advance(self, model: Any, prompt: Cache, count: int, *, partly: bool = True) -> None:
        """Compute up to so many tokens more. One that is longer is begun only if it is `partly`
        to be had, and first. `prompt` is the row's KV; it is as before whenever a continuation has
        come to its end."""
        while self._todo and count:
            group = self._group(prompt, count)
            if len(group) > 1:
                count -= self._several(model, prompt, group)
            elif partly or _tokens(group) <= count:
                count -= self._one(model, prompt, count)
            else:
                # Whole, the next time, it may share a pass with others.
                break
            partly = False

    def _group(self, prompt: Cache, room: int) -> list[Asked]:
        if self._done or not can_branch(prompt):
            return [self._todo[0]]
        lengths = [len(more.tokens) for _, more in self._todo]
        return list(self._todo)[: first_group(lengths, room, self._context_tokens)]

    def _several(self, model: Any, prompt: Cache, group: Sequence[Asked]) -> int:
        found = _logits_together(model, prompt, [more for _, more in group])
        for (index, _), logits in zip(group, found, strict=True):
            self._logits[index] = logits
            self._todo.popleft()
        return _tokens(group)

    def _one(self, model: Any, prompt: Cache, room: int) -> int:
        """The first alone, or as much of it as there is room for."""
        index, more = self._todo[0]
        if self._cache is None:
            self._cache = prompt if can_branch(prompt) else kv.forked(prompt)
        piece = more.tokens[self._done : self._done + room]
        self._done += len(piece)
        if self._done < len(more.tokens):
            forward.advance(model, self._cache, piece)
        else:
            self._logits[index] = _label_logits(model, self._cache, piece, more.labels)
            self._end(prompt)
        return len(piece)

    def _end(self, prompt: Cache) -> None:
        _, more = self._todo.popleft()
        if self._cache is prompt:
            for layer in prompt:
                layer.trim(len(more.tokens))
        self._cache, self._done = None, 0


def _after(last: int, more: Continuation) -> Continuation:
    return Continuation((last, *more.tokens), more.labels)


def _tokens(group: Sequence[Asked]) -> int:
    return sum(len(more.tokens) for _, more in group)


def _label_logits(
    model: Any, cache: Cache, tokens: Sequence[int], labels: Sequence[int]
) -> LabelLogits:
    logits = logits_at(model, mx.array([tokens]), cache, [len(tokens) - 1])[0]
    read = logits[mx.array(list(labels))]
    mx.eval(read, kv.arrays(cache))
    return tuple(np.asarray(read).tolist())


def _logits_together(model: Any, context: Cache, rows: Sequence[Continuation]) -> list[LabelLogits]:
    """The same for rows of nearly one length, the shortest first."""
    longest = len(rows[-1].tokens)
    tokens = mx.array([[*row.tokens, *[0] * (longest - len(row.tokens))] for row in rows])
    places = [len(row.tokens) - 1 for row in rows]
    logits = logits_at(model, tokens, branched(context), places)
    read = [logits[index, mx.array(list(row.labels))] for index, row in enumerate(rows)]
    mx.eval(read)
    return [tuple(np.asarray(one).tolist()) for one in read]
