"""What rows of a model take in memory, by arithmetic. Pure: token counts in, bytes out.

A layer's cache grows by the same bytes with every token, in whole steps of tokens; one with a
sliding window stops growing at the window; a recurrent state has one size whatever the length.
Rows that decode together lie in rectangles, in which each takes as much as the longest.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from headrace.runtime.banding import banded


@attrs.frozen
class KvGroup:
    """Layers whose caches grow alike: bytes for each token, of all these layers together."""

    bytes_per_token: int
    # Tokens after which nothing is added; None: the whole context is kept.
    window: int | None = None


@attrs.frozen
class Footprint:
    """`token_bytes`, `context_bytes` and `score_bytes` are what computing a prompt takes on top of
    its caches: for each token of a chunk, for each one before it, and for each pair of the two."""

    groups: tuple[KvGroup, ...] = ()
    # What a row takes in layers that keep a state of fixed size.
    state_bytes: int = 0
    # Caches are allocated in whole multiples of so many tokens.
    step_tokens: int = 1
    token_bytes: int = 0
    score_bytes: int = 0
    context_bytes: int = 0
    # What a row takes while its next token is chosen.
    logits_bytes: int = 0
    # Whether rows decode in one batch, padded to the longest.
    together: bool = False
    # Whether those of other lengths lie apart then (`banding.py`).
    bands: bool = False

    def row_bytes(self, tokens: int) -> int:
        """The caches of one row that holds so many tokens."""
        if tokens <= 0:
            return 0
        allocated = -(-tokens // self.step_tokens) * self.step_tokens
        grown = sum(
            group.bytes_per_token * (min(allocated, group.window) if group.window else allocated)
            for group in self.groups
        )
        return grown + self.state_bytes

    def batch_bytes(self, lengths: Sequence[int], spare: int = 0) -> int:
        """The caches of rows of these lengths, in the order in which they came, that decode at the
        same time, with so many places beside those that are taken."""
        if not self.together:
            return sum(map(self.row_bytes, lengths))
        if not self.bands:
            return (len(lengths) + spare) * self.row_bytes(max(lengths, default=0))
        bands = banded(lengths)
        # A row by itself takes its place along when it leaves.
        places = max((band.longest for band in bands if band.rows > 1), default=0)
        taken = sum(band.rows * self.row_bytes(band.longest) for band in bands)
        return taken + spare * self.row_bytes(places)

    def prefill_bytes(self, chunk_tokens: int, context_tokens: int) -> int:
        """What one chunk takes while it is computed, at the end of so long a context."""
        chunk = min(chunk_tokens, context_tokens)
        # A chunk is added to a full window before the oldest tokens go.
        kept = sum(
            group.bytes_per_token * min(chunk, max(0, context_tokens - group.window))
            for group in self.groups
            if group.window
        )
        computed = chunk * (self.token_bytes + self.score_bytes * context_tokens)
        return kept + computed + self.context_bytes * context_tokens

    def branches_bytes(self, rows: int, tokens: int, context_tokens: int) -> int:
        """What one pass takes over rows that go on from one context, beyond a chunk as long: the
        caches of their tokens, and a copy of one layer of the context for each further row."""
        if rows < 2 or self.state_bytes or any(group.window for group in self.groups):
            # Such rows go on one after the other.
            return 0
        own = tokens * sum(group.bytes_per_token for group in self.groups)
        return own + (rows - 1) * self.context_bytes * context_tokens

    def lone_bytes(self, context_tokens: int, chunk_tokens: int, rows: int = 1) -> int:
        """All that the rows of one request, each of this length, take at their worst moment,
        weights left out."""
        computing = self.prefill_bytes(chunk_tokens, context_tokens)
        return rows * self.row_bytes(context_tokens) + max(computing, rows * self.logits_bytes)

    def longest(self, room_bytes: int, chunk_tokens: int, limit_tokens: int, rows: int = 1) -> int:
        """The longest such rows, up to the limit, for which there is room; 0 if there are none."""
        if self.lone_bytes(limit_tokens, chunk_tokens, rows) <= room_bytes:
            return limit_tokens
        low, high = 0, limit_tokens - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.lone_bytes(middle, chunk_tokens, rows) <= room_bytes:
                low = middle
            else:
                high = middle - 1
        return low
