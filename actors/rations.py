"""What memory one model has for its rows, and which of them may use it. Pure.

The model's side of the ledger (`ledger.py`). Rows join while there is memory for them and some
way ahead; each step is checked against what is allotted before it runs; when it is not enough,
the request that came last gives up its rows and goes back to the front of the line. Counting is by
blocks of tokens: between two changes of the batch nothing is looked at for a block of steps.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Mapping, Sequence

import attrs

from headrace.actors.ledger import UNLIMITED_BYTES, Allot, Use
from headrace.actors.rows import BatchRow
from headrace.runtime.footprint import Footprint
from headrace.runtime.grouping import padded_tokens, widest_group
from headrace.runtime.ports import RowSpec

# Tokens for which a row is given memory at a time.
BLOCK_TOKENS = 64
# An engine that has rows together keeps places of rows that left, and makes some for rows to come:
# up to so many, for so many steps.
SPARE_PLACES, SPARE_STEPS = 2, 9
# Rows that are read go one after another: one is being computed, one is about to be.
READ_AT_ONCE = 2


@attrs.define(eq=False)
class Claim:
    """A request that is in the batch or waits to be; `specs` are the rows that it joins with."""

    row: BatchRow
    # Rank by arrival: the greatest is the youngest.
    turn: int
    specs: tuple[RowSpec, ...]
    # Its rows in the engine.
    numbers: set[int] = attrs.field(factory=set)
    suspended: bool = False

    @property
    def may_be_suspended(self) -> bool:
        """Rows that are read are soon gone; a prompt's scores cannot be told twice."""
        return not any(spec.is_read or spec.scores_prompt for spec in self.specs)


@attrs.define(eq=False)
class _Length:
    """Of one row: its tokens when the count of steps was 0, and the most it may come to.
    `leader` is the row that computes its prompt."""

    leader: int
    base: int
    most: int
    reads: bool
    # Tokens of its prompt while that is not complete.
    prompt: int | None
    # On top of a chunk of its prompt, for computing what goes on from there.
    branches_bytes: int = 0

    def after(self, steps: int) -> int:
        return min(self.base + steps, self.most)


class Rations:
    """`cache_bytes` is the most that may be kept for rows that begin alike. Without `rationed`
    there is no limit."""

    def __init__(
        self, footprint: Footprint, chunk_tokens: int, cache_bytes: int, *, rationed: bool
    ) -> None:
        self._footprint = footprint
        self._chunk_tokens = chunk_tokens
        self._cache_bytes = cache_bytes
        self.allotted_bytes = 0 if rationed else UNLIMITED_BYTES
        self.most_bytes = UNLIMITED_BYTES
        self._obeyed = 0
        self._asked = 0
        # Standing still for want of memory; whether the ledger has answered since.
        self.asking = False
        self.answered = False
        self._turns = itertools.count()
        self._line: list[Claim] = []
        # How many of the line there was no memory for; who came since has not been looked at.
        self._refused = 0
        self._claims: dict[int, Claim] = {}
        self._lengths: dict[int, _Length] = {}
        self._steps = 0
        # Places of the engine's batch, and until when it may have more than it has rows.
        self._places = 0
        self._places_until = 0
        # Nothing has to be looked at before so many steps.
        self._enough_until = 0
        # What follows from all this, until something changes.
        self._reserved: int | None = 0
        self._use: Use | None = None

    # ---- requests --------------------------------------------------------------------------

    def line_up(self, row: BatchRow, specs: Iterable[RowSpec]) -> None:
        self._line.append(Claim(row, next(self._turns), tuple(specs)))
        self._use = None

    def withdraw(self, row: BatchRow) -> None:
        """A request that waits goes; nothing happens to one that does not."""
        self._line = [claim for claim in self._line if claim.row is not row]
        self._use = None

    @property
    def waiting(self) -> int:
        return len(self._line)

    @property
    def running(self) -> int:
        return len(self._lengths)

    def admit(self) -> list[Claim]:
        """Take those from the front of the line for whom there is memory. Nobody passes another."""
        admitted = []
        while self._line and self._needed(self._ahead, self._line[0]) <= self.allotted_bytes:
            claim = self._line.pop(0)
            for spec in claim.specs:
                for number in (spec.row, *spec.siblings):
                    self._enter(claim, number, spec)
            admitted.append(claim)
            self._set_places(max(self._places_now, self.running + self.running // 8))
        if self._refused != len(self._line):
            self._refused = len(self._line)
            self._use = None
        return admitted

    def _enter(self, claim: Claim, number: int, spec: RowSpec) -> None:
        claim.numbers.add(number)
        self._claims[number] = claim
        self._lengths[number] = self._length(spec)
        self._changed()

    def _length(self, spec: RowSpec) -> _Length:
        more = max((len(more.tokens) for more in spec.continuations), default=0)
        tokens = len(spec.tokens) + more
        most = tokens if spec.is_read else tokens - spec.resumed + spec.max_tokens
        base = tokens - self._steps
        return _Length(spec.row, base, most, spec.is_read, tokens, self._branches_bytes(spec))

    def _branches_bytes(self, spec: RowSpec) -> int:
        # The last token of the prompt is computed with each.
        lengths = [1 + len(more.tokens) for more in spec.continuations]
        rows = widest_group(lengths, self._chunk_tokens, len(spec.tokens))
        tokens = padded_tokens(self._chunk_tokens)
        return self._footprint.branches_bytes(rows, tokens, len(spec.tokens))

    def completed(self, number: int) -> bool:
        """The row's prompt is complete. Answers whether that is news to its client."""
        for length in self._lengths.values():
            if length.leader == number and length.prompt is not None:
                length.base, length.prompt = length.prompt - self._steps, None
        self._changed()
        return not self._claims[number].suspended

    def leave(self, numbers: Iterable[int]) -> None:
        """These rows are no longer in the engine."""
        had = self._places_now
        for number in numbers:
            claim = self._claims.pop(number, None)
            if claim is not None:
                claim.numbers.discard(number)
                del self._lengths[number]
        rows = self.running
        self._set_places(min(had, rows + max(SPARE_PLACES, rows // 2)) if rows > 1 else rows)
        self._changed()

    @property
    def _places_now(self) -> int:
        return self._places if self._steps < self._places_until else self.running

    def _set_places(self, places: int) -> None:
        """The rows are others now, and for a while there may be more places than rows."""
        self._places, self._places_until = places, self._steps + SPARE_STEPS

    def stepped(self) -> None:
        """Each row has at most one token more."""
        self._steps += 1
        if self._steps == self._places_until:
            self._changed()

    # ---- memory ----------------------------------------------------------------------------

    def obey(self, allot: Allot) -> None:
        self.allotted_bytes, self.most_bytes = allot.allotted_bytes, allot.most_bytes
        self._obeyed = allot.number
        self.answered = True
        self._changed()

    def can_step(self) -> bool:
        """Whether the rows may take their next step; looked into once for each block."""
        if self._steps < self._enough_until:
            return True
        for ahead in (BLOCK_TOKENS, 1):
            needed = self._needed(ahead)
            if needed <= self.allotted_bytes:
                self._changed()
                self._enough_until, self._reserved = self._steps + ahead, needed
                self.asking = False
                return True
        # What is reserved is no longer enough, and the ledger is to know by how much.
        self._changed()
        return False

    def ask(self) -> None:
        """The rows stand still: the ledger is to say whether there is more."""
        self.asking, self.answered = True, False
        self._asked += 1
        self._use = None

    def youngest(self) -> Claim | None:
        """Whose rows go when there is no more."""
        claims = {claim.turn: claim for claim in self._claims.values() if claim.may_be_suspended}
        return claims[max(claims)] if claims else None

    def suspend(self, claim: Claim, specs: Sequence[RowSpec]) -> None:
        """Its rows have left the engine, and `specs` is what goes on from there."""
        self.leave(tuple(claim.numbers))
        claim.specs, claim.suspended = tuple(specs), True
        bisect.insort(self._line, claim, key=lambda other: other.turn)
        self.asking = False

    def hopeless(self) -> Claim | None:
        """The first in line, if there would not be enough for it even alone. It is taken out."""
        if self._lengths or not self._line or self._needed(1, self._line[0]) <= self.most_bytes:
            return None
        self._use = None
        return self._line.pop(0)

    def overdraw(self) -> None:
        """Let the rows take one step that there is no memory for: nobody can be suspended."""
        self._enough_until = self._steps + 1
        self.asking = False

    @property
    def cache_limit_bytes(self) -> int:
        """What may be kept for rows that begin alike, from the next step on."""
        return max(0, min(self._cache_bytes, self.allotted_bytes - self._reservation()))

    def use(self, cache_bytes: int) -> Use:
        """What the ledger is to know."""
        if self._use is None:
            reserved = self._reservation()
            waits = self._line if self._refused else ()
            wanted = self._needed(self._ahead, waits[0]) if waits else reserved
            self._use = Use(
                rows_bytes=reserved,
                wanted_bytes=max(reserved, wanted),
                taken_bytes=min(reserved, self.allotted_bytes),
                transient_bytes=min(reserved, self._transient(self._all_lengths(), self._steps)),
                obeyed=self._obeyed,
                asked=self._asked,
                held_back=min(self._refused, len(self._line)),
            )
        if self._use.cache_bytes != cache_bytes:
            self._use = attrs.evolve(self._use, cache_bytes=cache_bytes)
        return self._use

    def _reservation(self) -> int:
        if self._reserved is None:
            self._reserved = self._needed(1)
        return self._reserved

    @property
    def _ahead(self) -> int:
        """A newcomer beside others has to be able to go on for a while; one that is alone may
        begin with what there is."""
        return BLOCK_TOKENS if self._lengths else 1

    def _changed(self) -> None:
        self._enough_until, self._reserved, self._use = 0, None, None

    def _all_lengths(self, newcomer: Claim | None = None) -> list[_Length]:
        lengths = list(self._lengths.values())
        for spec in newcomer.specs if newcomer is not None else ():
            lengths += [self._length(spec) for _ in (spec.row, *spec.siblings)]
        return lengths

    def _needed(self, ahead: int, newcomer: Claim | None = None) -> int:
        """For all rows, and a newcomer's, to take so many steps."""
        lengths = self._all_lengths(newcomer)
        if not lengths:
            return 0
        steps = self._steps + ahead
        said = [length.after(steps) for length in lengths if not length.reads]
        read = max((length.most for length in lengths if length.reads), default=0)
        count = min(READ_AT_ONCE, len(lengths) - len(said))
        spare = self._spare_places(len(said), newcomer is not None)
        caches = self._footprint.batch_bytes(said, spare) + count * self._footprint.row_bytes(read)
        return caches + self._transient(lengths, steps)

    def _spare_places(self, rows: int, grows: bool) -> int:
        if rows < 2 or not self._footprint.together:
            return 0
        return max(rows // 8 if grows else 0, self._places_now - rows)

    def _transient(self, lengths: Sequence[_Length], steps: int) -> int:
        """For computing: a chunk of the longest prompt, or the logits of all that decode and a
        copy of one layer of them, as rows join and buffers grow."""
        prompts = [length.prompt for length in lengths if length.prompt is not None]
        said = [length.after(steps) for length in lengths if not length.reads]
        copies = self._footprint.context_bytes * max(said, default=0) * len(said)
        decode = (len(lengths) - len(prompts)) * self._footprint.logits_bytes + copies
        if not prompts:
            return decode
        prefill = self._footprint.prefill_bytes(self._chunk_tokens, max(prompts))
        if len(prompts) > 1 and self._footprint.together:
            # Short prompts that are computed together are copied to one batch and back.
            prefill += len(prompts) * self._footprint.row_bytes(1)
        branches = max(length.branches_bytes for length in lengths)
        if self._footprint.bands:
            # One pass may do both.
            return decode + prefill + branches
        return max(decode, prefill + branches)

    def __repr__(self) -> str:
        return (
            f"<Rations {len(self._lengths)} rows, {len(self._line)} held back | "
            f"{self._reserved} of {self.allotted_bytes} bytes>"
        )


def renumbered(
    spec: RowSpec, fresh: Mapping[int, int], forced: Mapping[int, tuple[int, ...]]
) -> RowSpec:
    """The same row under a number of its own, with what it was still to be told to say."""
    return attrs.evolve(
        spec,
        row=fresh[spec.row],
        siblings=tuple(fresh[sibling] for sibling in spec.siblings),
        forced=(*spec.forced, *forced[spec.row]),
    )
