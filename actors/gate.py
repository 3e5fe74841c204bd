"""Whether the first in line of a model may run, as far as memory goes. Pure.

An estimate: what those who run take, and the newcomer's prompt beside them. The model
itself counts exactly, and holds back whom it has no memory for; the gate keeps the wait in the
queue, where it is bounded and can be told.
"""

from __future__ import annotations

import attrs

from headrace.actors.ledger import Ledger
from headrace.actors.messages import Ticket
from headrace.runtime.footprint import Footprint


@attrs.define(eq=False)
class Wish:
    """What a ticket is about to compute: `rows` rows of so many tokens."""

    model_id: str
    # In order of arrival, of all models.
    number: int
    footprint: Footprint
    tokens: int
    rows: int
    running: bool = False


class Gate:
    """`chunk_tokens` is the longest prefill chunk."""

    def __init__(self, ledger: Ledger, chunk_tokens: int) -> None:
        self._ledger = ledger
        self._chunk_tokens = chunk_tokens
        self._wishes: dict[Ticket, Wish] = {}
        # Model -> the first in its line, while there is a row for it but it may not run.
        self._refused: dict[str, Ticket] = {}

    def line_up(self, ticket: Ticket, wish: Wish) -> None:
        self._wishes[ticket] = wish

    def leave(self, ticket: Ticket) -> None:
        """The ticket is done, whatever it had."""
        wish = self._wishes.pop(ticket, None)
        if wish is not None and self._refused.get(wish.model_id) == ticket:
            del self._refused[wish.model_id]

    def let_run(self, ticket: Ticket) -> bool:
        """Book the ticket as running if there is memory for it. While one waits for memory nobody
        who came later is let past, to whatever model: it would wait for ever."""
        wish = self._wishes[ticket]
        # From here on it is the first in its line.
        self._refused.pop(wish.model_id, None)
        older = any(self._wishes[t].number < wish.number for t in self._refused.values())
        if older or not self._fits(wish):
            self._refused[wish.model_id] = ticket
            return False
        wish.running = True
        return True

    def retry_order(self) -> list[str]:
        """Models whose first in line waits for memory, the oldest ticket first."""
        refused = sorted(self._refused.items(), key=lambda entry: self._wishes[entry[1]].number)
        return [model_id for model_id, _ in refused]

    def _fits(self, wish: Wish) -> bool:
        if not self._ledger.admits(wish.model_id):
            return False
        running = (w for w in self._wishes.values() if w.running and w.model_id == wish.model_id)
        lengths = [w.tokens for w in (*running, wish) for _ in range(w.rows)]
        footprint = wish.footprint
        prompts = footprint.batch_bytes(lengths)
        prompts += footprint.prefill_bytes(self._chunk_tokens, wish.tokens)
        # Those who run may be far beyond their prompts by now.
        grown = self._ledger.rows_bytes(wish.model_id)
        grown += wish.rows * footprint.row_bytes(wish.tokens)
        return max(prompts, grown) <= self._ledger.reach_bytes(wish.model_id)
