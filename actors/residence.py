"""The words of residency: one model's place in memory, a waiter, and what is to be done. Pure.

`Residency` decides in these terms; the registry carries the actions out and reports back.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from headrace.actors.messages import Ticket
from headrace.actors.reports import ModelState
from headrace.runtime.errors import Code

# `loading` lasts from Load to its report, `unloading` from Unload until the memory is free.
Phase: TypeAlias = Literal["absent", "loading", "ready", "unloading"]
UnloadReason: TypeAlias = Literal["unloaded_by_request", "unloaded_idle", "evicted"]
UnloadAnswer: TypeAlias = Literal["unloading", "absent", "in-use"]


# ---- actions: to be carried out in the order given -----------------------------------------


@attrs.frozen
class Load:
    """Bring the model into memory and report `loaded`, `load_failed` or `died`."""

    model_id: str
    # What is set aside for it until its own measurement comes.
    estimate_bytes: int


@attrs.frozen
class Unload:
    """Drain, flush and free the model, or give up its load, and report `unloaded`."""

    model_id: str
    reason: UnloadReason


@attrs.frozen
class Grant:
    """The ticket holds a lease on the model until it is released."""

    ticket: Ticket
    model_id: str


@attrs.frozen
class Fail:
    """The answer to a ticket that waited: it gets no lease and is gone."""

    ticket: Ticket
    model_id: str
    code: Code
    reason: str


@attrs.frozen
class Cancel:
    """The lease is over, for its model goes or has gone: end the request with this error."""

    ticket: Ticket
    model_id: str
    code: Code
    reason: str


Action: TypeAlias = Load | Unload | Grant | Fail | Cancel


# ---- state -----------------------------------------------------------------------------------


@attrs.define(eq=False)
class Slot:
    """One model known to residency. `bytes` is what it is charged with: the estimate while it
    loads, what was measured afterwards, and nothing once its memory is free."""

    id: str
    phase: Phase = "absent"
    # Why it is absent; while it unloads, why it goes.
    absence: ModelState = "never_loaded"
    bytes: int = 0
    # What its next load is expected to take.
    need_bytes: int = 0
    # What its last load took, to correct the estimate of the next.
    loaded_bytes: int = 0
    pinned: bool = False
    # Died too often: refuses until it is asked for by hand.
    exhausted: bool = False
    leases: dict[Ticket, None] = attrs.field(factory=dict)
    waiting: int = 0
    last_used_at: float | None = None
    idle_since: float = 0.0
    # Rank among all uses of all models: a greater one is more recent.
    use: int = 0

    def expect(self, estimate_bytes: int) -> None:
        self.need_bytes = max(estimate_bytes, self.loaded_bytes)

    def leave(self, why: ModelState) -> None:
        """The memory is free."""
        self.phase, self.absence, self.bytes = "absent", why, 0

    @property
    def kept(self) -> bool:
        """In memory, or coming, and not on its way out."""
        return self.phase in ("loading", "ready")

    @property
    def idle(self) -> bool:
        """May be given up at once: in memory with nobody who holds, awaits or pins it."""
        wanted = self.leases or (self.phase == "loading" and self.waiting)
        return self.kept and not wanted and not self.pinned

    @property
    def busy(self) -> bool:
        """May be given up once its leases have ended."""
        return self.kept and not self.pinned and not self.idle

    @property
    def state(self) -> ModelState:
        match self.phase:
            case "absent":
                return self.absence
            case "loading":
                return "restarting" if self.absence == "crashed" else "loading"
            case "unloading":
                return "draining"
            case "ready":
                return "ready"

    def report(self) -> Residence:
        return Residence(
            id=self.id,
            state=self.state,
            bytes=self.bytes,
            pinned=self.pinned,
            exhausted=self.exhausted,
            leases=len(self.leases),
            waiting=self.waiting,
            last_used_at=self.last_used_at,
        )


@attrs.define(eq=False)
class Waiter:
    """A ticket without a lease. `overtaken` counts the leases given past it by models that are
    in its way, while it was the oldest that could not be placed."""

    ticket: Ticket
    slot: Slot
    overtaken: int = 0


@attrs.frozen(eq=False)
class Claim:
    """The oldest waiter that cannot be placed, and the models whose end it waits for."""

    waiter: Waiter
    victims: tuple[Slot, ...]

    @property
    def slot(self) -> Slot:
        return self.waiter.slot


# ---- reports ---------------------------------------------------------------------------------


@attrs.frozen
class Residence:
    """Where one model stands. `bytes` is its charge against the budget."""

    id: str
    state: ModelState
    bytes: int
    pinned: bool
    exhausted: bool
    leases: int
    waiting: int
    # On the clock of the caller's `now`; None before the first lease.
    last_used_at: float | None


@attrs.frozen
class ResidencyReport:
    """All models at one instant, in the order in which they became known."""

    budget_bytes: int
    # Everything that is charged now: loading, ready and unloading models.
    charged_bytes: int
    models: tuple[Residence, ...]
    # The ticket that waits for room, and the models whose end it waits for.
    claimed_by: Ticket | None
    victims: tuple[str, ...]
    draining: bool
