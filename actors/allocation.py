"""The state of residency and the rule that turns it into actions, the oldest ticket first. Pure.

`Residency` changes the state as events come and asks for the plan after each. The rule of
fairness is told there.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.actors.messages import Ticket
from headrace.actors.placement import (
    awaited_victims,
    barred_by_pins,
    charged_bytes,
    fits_now,
    idle_victims,
    oldest_first,
    shortfall_bytes,
)
from headrace.actors.residence import (
    Action,
    Cancel,
    Claim,
    Fail,
    Grant,
    Load,
    Slot,
    Unload,
    UnloadReason,
    Waiter,
)
from headrace.runtime.errors import Code


class Allocation:
    """Slots by model id, waiters in order of arrival, leases by ticket, and the claim."""

    def __init__(self, budget_bytes: int, overtakes: int) -> None:
        self.budget_bytes = budget_bytes
        self.slots: dict[str, Slot] = {}
        self.waiters: dict[Ticket, Waiter] = {}
        self.leases: dict[Ticket, Slot] = {}
        self.claim: Claim | None = None
        self._overtakes = overtakes
        self._uses = 0

    def slot(self, model_id: str) -> Slot:
        return self.slots.setdefault(model_id, Slot(model_id))

    # ---- the plan ----------------------------------------------------------------------------

    def plan(self, now: float) -> list[Action]:
        """Everything that the state now allows."""
        actions = self._relieve()
        before, self.claim = self.claim, None
        for waiter in tuple(self.waiters.values()):
            slot = waiter.slot
            if slot.phase == "ready":
                if self._may_pass(slot):
                    actions.append(self._grant(waiter, now))
            elif slot.phase != "loading" and (self.claim is None or self.claim.slot is not slot):
                actions += self._place(waiter)
                if self.claim is None and waiter.ticket in self.waiters and not slot.kept:
                    self.claim = self._stake(waiter, before)
        return actions

    def load_if_room(self, slot: Slot, claim: Claim | None) -> list[Action]:
        """Load, if that can start now and leaves the claimant its room."""
        slots = self.slots.values()
        if slot.phase != "absent" or not fits_now(slot, slots, self.budget_bytes):
            return []
        if claim and shortfall_bytes(slot, slots, self.budget_bytes, claim) > 0:
            return []
        slot.phase, slot.bytes = "loading", slot.need_bytes
        return [Load(slot.id, slot.bytes)]

    def _place(self, waiter: Waiter) -> list[Action]:
        """Load, or make room from idle models, or fail where pins leave too little."""
        slot, slots = waiter.slot, self.slots.values()
        free = barred_by_pins(slot, slots, self.budget_bytes)
        if free is not None:
            why = f"{slot.need_bytes} bytes are needed, pinned models leave {free}"
            return [self._fail(waiter, Code.DOES_NOT_FIT, why)]
        if slot.need_bytes > self.budget_bytes and self.claim is not None:
            return []
        if load := self.load_if_room(slot, self.claim):
            return load
        short = shortfall_bytes(slot, slots, self.budget_bytes, self.claim)
        return self._evict(idle_victims(short, slots, self.claim))

    def _stake(self, waiter: Waiter, before: Claim | None) -> Claim:
        slots = self.slots.values()
        return Claim(waiter, awaited_victims(waiter, slots, self.budget_bytes, before))

    def _may_pass(self, slot: Slot) -> bool:
        """Whether a ready model may be leased past the claimant, which is older."""
        if self.claim is None or slot not in self.claim.victims:
            return True
        if self.claim.waiter.overtaken == self._overtakes:
            return False
        self.claim.waiter.overtaken += 1
        return True

    def _relieve(self) -> list[Action]:
        """Models have outgrown the budget: idle ones go as far as they help, but not the last."""
        kept = oldest_first(slot for slot in self.slots.values() if slot.kept)
        over = charged_bytes(kept) - self.budget_bytes
        idle = [slot for slot in kept if slot.idle]
        if len(idle) == len(kept):
            idle = idle[:-1]
        return self._evict(idle_victims(min(over, charged_bytes(idle)), idle))

    def _evict(self, victims: Iterable[Slot]) -> list[Action]:
        return [self.unload(victim, "evicted") for victim in victims]

    # ---- single steps ------------------------------------------------------------------------

    def queue(self, ticket: Ticket, slot: Slot) -> None:
        self.waiters[ticket] = Waiter(ticket, slot)
        slot.waiting += 1

    def withdraw(self, ticket: Ticket, now: float) -> bool:
        """Take the ticket out, whatever it has; False if it has nothing."""
        if (slot := self.leases.pop(ticket, None)) is not None:
            del slot.leases[ticket]
            self._touch(slot, now)
        elif ticket in self.waiters:
            self._leave_queue(ticket)
        else:
            return False
        return True

    def unload(self, slot: Slot, reason: UnloadReason) -> Unload:
        slot.phase, slot.absence = "unloading", reason
        return Unload(slot.id, reason)

    def fail_waiters(self, slot: Slot, code: Code, reason: str) -> list[Action]:
        waiting = [waiter for waiter in self.waiters.values() if waiter.slot is slot]
        return [self._fail(waiter, code, reason) for waiter in waiting]

    def cancel_leases(self, slot: Slot, code: Code, reason: str, now: float) -> list[Action]:
        held = tuple(slot.leases)
        for ticket in held:
            self.withdraw(ticket, now)
        return [Cancel(ticket, slot.id, code, reason) for ticket in held]

    def open(self, slot: Slot, now: float) -> list[Action]:
        """The model is there. Who waited for it comes first, before it can be given up again."""
        slot.phase, slot.idle_since = "ready", now
        self._rank(slot)
        actions: list[Action] = []
        overtaking = False
        for waiter in tuple(self.waiters.values()):
            overtaking = overtaking or (self.claim is not None and self.claim.waiter is waiter)
            if waiter.slot is slot and (not overtaking or self._may_pass(slot)):
                actions.append(self._grant(waiter, now))
        return actions

    def _grant(self, waiter: Waiter, now: float) -> Grant:
        slot = waiter.slot
        self._leave_queue(waiter.ticket)
        self.leases[waiter.ticket] = slot
        slot.leases[waiter.ticket] = None
        self._touch(slot, now)
        return Grant(waiter.ticket, slot.id)

    def _fail(self, waiter: Waiter, code: Code, reason: str) -> Fail:
        self._leave_queue(waiter.ticket)
        return Fail(waiter.ticket, waiter.slot.id, code, reason)

    def _leave_queue(self, ticket: Ticket) -> None:
        self.waiters.pop(ticket).slot.waiting -= 1

    def _touch(self, slot: Slot, now: float) -> None:
        slot.last_used_at = slot.idle_since = now
        self._rank(slot)

    def _rank(self, slot: Slot) -> None:
        self._uses += 1
        slot.use = self._uses

    # ---- for tests ---------------------------------------------------------------------------

    def check_integrity(self) -> None:
        """Raises `AssertionError` where the books contradict each other."""
        held = {ticket: slot for slot in self.slots.values() for ticket in slot.leases}
        assert held == self.leases, "leases are booked twice or not at all"
        assert not held.keys() & self.waiters.keys(), "a ticket waits and holds"
        for slot in self.slots.values():
            waiting = sum(waiter.slot is slot for waiter in self.waiters.values())
            assert slot.waiting == waiting, f"{slot.id}: {slot.waiting} of {waiting} waiters"
            assert slot.phase == "ready" or not slot.leases, f"{slot.id}: leased while {slot.phase}"
            assert slot.phase != "absent" or slot.bytes == 0, f"{slot.id}: charged while absent"
        if self.claim is not None:
            assert self.claim.waiter.ticket in self.waiters, "the claimant has left"
            assert all(victim.kept for victim in self.claim.victims), "a victim has gone"
