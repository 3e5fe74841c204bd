"""Which rows of a batch share buffers, where rows of other lengths lie apart. Pure.

In one buffer each row takes as much as the longest, in memory and in the time that attention takes.
Rows of about one length share a band. The engine places rows by it, and the ledger counts by it.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

# Tokens of padding, in all rows of a band, for which another row may join it. A band of its own
# costs each step as much as attention to some 400 tokens; caches are made in steps of 256.
BAND_TOKENS = 256
# Tokens between the shortest and the longest row of a band.
SPAN_TOKENS = 256
# Tokens of a whole band, padding included: so many are copied when a longer row joins.
MOST_TOKENS = 4096


@attrs.frozen
class Band:
    """Its number of rows, and the tokens of the shortest and of the longest."""

    rows: int
    shortest: int
    longest: int

    def joined(self, tokens: int) -> Band:
        return Band(self.rows + 1, min(self.shortest, tokens), max(self.longest, tokens))

    @property
    def span(self) -> int:
        return self.longest - self.shortest

    @property
    def tokens(self) -> int:
        return self.rows * self.longest

    def padding(self, tokens: int) -> int:
        """Tokens of padding, in all rows, that one more row of so many brings."""
        more = tokens - self.longest
        return self.rows * more if more > 0 else -more


def assigned(
    bands: Sequence[Band], lengths: Sequence[int], span_tokens: int = SPAN_TOKENS
) -> list[int]:
    """The band of each new row, of these lengths; those from `len(bands)` on are new ones."""
    bands, found = list(bands), list[int]()
    for tokens in lengths:
        fitting = [
            number
            for number, band in enumerate(bands)
            if band.padding(tokens) <= BAND_TOKENS
            and (after := band.joined(tokens)).span <= span_tokens
            and after.tokens <= MOST_TOKENS
        ]
        best = min(fitting, key=lambda number: bands[number].padding(tokens), default=len(bands))
        if fitting:
            bands[best] = bands[best].joined(tokens)
        else:
            bands.append(Band(1, tokens, tokens))
        found.append(best)
    return found


def banded(lengths: Sequence[int]) -> list[Band]:
    """The bands of rows of these lengths that came one after the other. Rows that have left since
    may have led to others, which differ by little."""
    places = assigned([], lengths)
    inside = [
        [tokens for tokens, place in zip(lengths, places, strict=True) if place == band]
        for band in range(max(places, default=-1) + 1)
    ]
    return [Band(len(tokens), min(tokens), max(tokens)) for tokens in inside]
