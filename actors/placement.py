"""Room for one more model: how much is missing and whose end would give it. Pure.

A model that is going is counted out here, since its bytes are sure to come; the load itself
starts only when they have come (`fits_now`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from headrace.actors.eviction import fewest_oldest
from headrace.actors.residence import Claim, Slot, Waiter


def charged_bytes(slots: Iterable[Slot]) -> int:
    return sum(slot.bytes for slot in slots)


def fits_now(newcomer: Slot, slots: Collection[Slot], budget_bytes: int) -> bool:
    """Whether the load may start at this instant. A model above the budget needs to be alone."""
    if all(slot.phase == "absent" for slot in slots):
        return True
    return charged_bytes(slots) + newcomer.need_bytes <= budget_bytes


def shortfall_bytes(
    newcomer: Slot, slots: Collection[Slot], budget_bytes: int, claim: Claim | None = None
) -> int:
    """Bytes that others must give up so that the newcomer gets its place; at most 0 if none.

    With a claim, the newcomer must leave the claimant the room that its victims will free.
    """
    kept = charged_bytes(slot for slot in slots if slot.kept)
    if newcomer.need_bytes > budget_bytes:
        return kept
    room = budget_bytes - kept
    if claim is not None:
        freed = charged_bytes(claim.victims)
        room = min(room, room + freed - claim.slot.need_bytes)
    return newcomer.need_bytes - room


def barred_by_pins(newcomer: Slot, slots: Iterable[Slot], budget_bytes: int) -> int | None:
    """Bytes that pinned models leave free, where that is too little; None where it is enough."""
    pinned = charged_bytes(slot for slot in slots if slot.pinned and slot.kept)
    if pinned == 0 or pinned + newcomer.need_bytes <= budget_bytes:
        return None
    return max(0, budget_bytes - pinned)


def idle_victims(
    short_bytes: int, slots: Iterable[Slot], claim: Claim | None = None
) -> tuple[Slot, ...]:
    """The fewest least recently used idle models that free so much; none if they cannot."""
    spared = claim.victims if claim is not None else ()
    idle = oldest_first(slot for slot in slots if slot.idle and slot not in spared)
    if short_bytes <= 0 or charged_bytes(idle) < short_bytes:
        return ()
    return fewest_oldest(short_bytes, idle)


def awaited_victims(
    waiter: Waiter, slots: Collection[Slot], budget_bytes: int, before: Claim | None
) -> tuple[Slot, ...]:
    """The models whose end `waiter` waits for, as few busy ones as possible.

    The choice sticks: while those chosen before are enough, it only shrinks. Otherwise use
    would reorder the models and the wait could wander from one busy model to the next.
    """
    short = shortfall_bytes(waiter.slot, slots, budget_bytes)
    if short <= 0:
        return ()
    pool = [slot for slot in slots if slot.idle or slot.busy]
    if before is not None and before.waiter is waiter:
        chosen = [slot for slot in before.victims if slot in pool]
        if charged_bytes(chosen) >= short:
            pool = chosen
    idle = oldest_first(slot for slot in pool if slot.idle)
    busy = oldest_first(slot for slot in pool if slot.busy)
    ending = fewest_oldest(short - charged_bytes(idle), busy)
    return (*ending, *fewest_oldest(short - charged_bytes(ending), idle))


def oldest_first(slots: Iterable[Slot]) -> list[Slot]:
    return sorted(slots, key=lambda slot: slot.use)
