"""Which models are resident, as a pure state machine: events in, actions out.

The owner (the lease registry) tells what happened and carries out the actions that come back, in
their order. Times are arguments, on one clock of the owner's choice.

Promises:

- A model with a lease or a pin is never unloaded, except by force or by its own death.
- No load passes the budget, also during a swap: charged are the estimates of loading models and
  the measurements of resident ones, until the memory is free. Only a model that is larger than
  the whole budget is loaded over it, and then nothing else is there.
- One load per model at a time, however many wait for it.
- A ticket ends exactly once: granted and then released or cancelled, failed, or withdrawn.

Fairness. Tickets are looked at in order of arrival. The oldest whose model cannot be placed has
the claim: it chooses its victims, the fewest busy ones, and while they are busy lets at most
`overtakes` younger tickets past it on them. After that they give no new leases, so those they
gave only end. When all victims are idle they go, together, and not before. Models that are not
in the way grant freely all the while, and a younger ticket's model is loaded only where that
leaves the claimant its room.

So a ticket that has the claim gets its load after at most so many leases have ended: those held
on its victims, those that older tickets wait for there, and `overtakes` more (the choice of
victims changes only when a pin or growth makes it too small). Nobody has the claim twice, and
before a ticket only older ones have it.
"""

from __future__ import annotations

from headrace.actors.allocation import Allocation
from headrace.actors.messages import Ticket
from headrace.actors.placement import charged_bytes, oldest_first
from headrace.actors.residence import Action, Fail, ResidencyReport, Slot, UnloadAnswer
from headrace.runtime.errors import Code

# What is there takes something: a model above the budget waits for the end of each that is there.
LEAST_BYTES = 1


class Residency:
    """Decides for one budget. `overtakes` is the bound of the fairness rule above.

    Tickets may be released in any state, any number of times. A report about a model that
    contradicts its state is a fault of the owner and raises `ValueError`.
    """

    def __init__(self, budget_bytes: int, *, overtakes: int = 32) -> None:
        self._books = Allocation(budget_bytes, overtakes)
        self._closed = False

    # ---- tickets -----------------------------------------------------------------------------

    def acquire(
        self, ticket: Ticket, model_id: str, estimate_bytes: int, now: float
    ) -> list[Action]:
        """Ask for a lease. `Grant` or `Fail` follows, now or later, unless it is released.

        `estimate_bytes` is what a load is expected to take; what an earlier load took corrects
        it upwards.
        """
        books = self._books
        if ticket in books.waiters or ticket in books.leases:
            raise ValueError(f"{ticket} is in use")
        slot = books.slot(model_id)
        slot.expect(estimate_bytes)
        if self._closed:
            return [Fail(ticket, model_id, Code.DRAINING, "no new requests are taken")]
        if slot.exhausted:
            return [Fail(ticket, model_id, Code.ENGINE_UNAVAILABLE, "the engine died too often")]
        books.queue(ticket, slot)
        return books.plan(now)

    def preload(
        self, ticket: Ticket, model_id: str, estimate_bytes: int, now: float
    ) -> list[Action]:
        """Ask by hand: like `acquire`, and a model that died too often is tried again.

        Its lease is a lease like any other; whoever only wants the model in memory releases it
        at the grant.
        """
        self._books.slot(model_id).exhausted = False
        return self.acquire(ticket, model_id, estimate_bytes, now)

    def release(self, ticket: Ticket, now: float) -> list[Action]:
        """The ticket's holder is done, has left the queue, or was never there."""
        return self._books.plan(now) if self._books.withdraw(ticket, now) else []

    def close_to_new(self) -> None:
        """Fail every later `acquire` as draining. Those that wait are still served."""
        self._closed = True

    def open_to_new(self) -> None:
        self._closed = False

    # ---- reports about models ----------------------------------------------------------------

    def loaded(self, model_id: str, measured_bytes: int, now: float) -> list[Action]:
        """A load is done and takes `measured_bytes`. It may have been given up meanwhile."""
        slot = self._reported(model_id, "loaded", "loading", "unloading")
        slot.bytes = slot.loaded_bytes = max(LEAST_BYTES, measured_bytes)
        slot.expect(slot.need_bytes)
        granted = self._books.open(slot, now) if slot.phase == "loading" else []
        return [*granted, *self._books.plan(now)]

    def load_failed(self, model_id: str, now: float, reason: str) -> list[Action]:
        """A load has ended without a model and holds no memory. The next acquire tries again."""
        slot = self._reported(model_id, "failed to load", "loading", "unloading", "absent")
        if slot.phase != "loading":
            return self._freed(slot, now)
        slot.leave("load_failed")
        failed = self._books.fail_waiters(slot, Code.LOAD_FAILED, reason)
        return [*failed, *self._books.plan(now)]

    def unloaded(self, model_id: str, now: float) -> list[Action]:
        """An `Unload` is done: the memory is free."""
        return self._freed(self._reported(model_id, "unloaded", "unloading", "absent"), now)

    def died(self, model_id: str, now: float, *, respawn: bool) -> list[Action]:
        """The model's engine is gone with its memory, and so are its leases.

        With `respawn` it is loaded again at once where there is room; its owner puts the backoff
        between `Load` and the start. Without, it has died too often: it refuses until `preload`
        or `unload` asks for it by hand.
        """
        slot, books = self._books.slot(model_id), self._books
        if not slot.kept:
            return self._freed(slot, now)
        actions = books.cancel_leases(slot, Code.ENGINE_UNAVAILABLE, "the engine died", now)
        if slot.phase == "loading" or not respawn:
            actions += books.fail_waiters(slot, Code.ENGINE_UNAVAILABLE, "the engine died")
        slot.leave("crashed")
        slot.exhausted = not respawn
        # A pinned model keeps its place; any other stands behind those that wait.
        if respawn and slot.pinned:
            actions += books.load_if_room(slot, None)
        actions += books.plan(now)
        if respawn:
            actions += books.load_if_room(slot, books.claim)
        return actions

    def measured(self, model_id: str, measured_bytes: int, now: float) -> list[Action]:
        """What the model takes now, without its rows. Above the budget, idle models go and
        nothing is loaded."""
        slot = self._books.slot(model_id)
        if slot.phase == "ready":
            slot.bytes = max(LEAST_BYTES, measured_bytes)
        elif slot.phase == "loading":
            slot.bytes = max(slot.bytes, measured_bytes)
        return self._books.plan(now)

    # ---- orders by hand ----------------------------------------------------------------------

    def pin(self, model_id: str, now: float) -> list[Action]:
        """Keep the model in memory once it is there. Who would now wait in vain is failed."""
        self._books.slot(model_id).pinned = True
        return self._books.plan(now)

    def unpin(self, model_id: str, now: float) -> list[Action]:
        self._books.slot(model_id).pinned = False
        return self._books.plan(now)

    def unload(
        self, model_id: str, now: float, *, force: bool = False
    ) -> tuple[UnloadAnswer, list[Action]]:
        """Free the model's memory or stop its load. `unloading`: wait for `unloaded`.

        `in-use` (leased, waited for or pinned) is a refusal. Force cancels its leases, fails
        its waiters and takes the pin off.
        """
        slot, books = self._books.slot(model_id), self._books
        slot.exhausted = False
        if slot.phase == "absent":
            if slot.absence in ("crashed", "load_failed"):
                slot.absence = "unloaded_by_request"
            return "absent", []
        if slot.phase == "unloading":
            slot.absence = "unloaded_by_request"
            return "unloading", []
        if not force and (slot.leases or slot.waiting or slot.pinned):
            return "in-use", []
        slot.pinned = False
        why = "the model was unloaded by request"
        ended = books.cancel_leases(slot, Code.MODEL_UNLOADED, why, now)
        ended += books.fail_waiters(slot, Code.MODEL_UNLOADED, why)
        return "unloading", [*ended, books.unload(slot, "unloaded_by_request"), *books.plan(now)]

    def idle(self, now: float, idle_seconds: float) -> list[Action]:
        """Unload what nobody has held, awaited or pinned for `idle_seconds`."""
        due = [slot for slot in self._unused() if slot.idle_since + idle_seconds <= now]
        gone = [self._books.unload(slot, "unloaded_idle") for slot in due]
        return [*gone, *self._books.plan(now)]

    def next_idle(self, idle_seconds: float) -> float | None:
        """When `idle` will next have something to do, if nothing happens until then."""
        return min((slot.idle_since + idle_seconds for slot in self._unused()), default=None)

    def _unused(self) -> list[Slot]:
        ready = (slot for slot in self._books.slots.values() if slot.phase == "ready")
        return oldest_first(slot for slot in ready if slot.idle and not slot.waiting)

    def _reported(self, model_id: str, report: str, *phases: str) -> Slot:
        slot = self._books.slot(model_id)
        if slot.phase not in phases:
            raise ValueError(f"{model_id} is said to have {report}, but it is {slot.phase}")
        return slot

    def _freed(self, slot: Slot, now: float) -> list[Action]:
        if slot.phase == "unloading":
            slot.leave(slot.absence)
        return self._books.plan(now)

    # ---- observation -------------------------------------------------------------------------

    @property
    def lease_count(self) -> int:
        return len(self._books.leases)

    @property
    def waiting_count(self) -> int:
        return len(self._books.waiters)

    def snapshot(self) -> ResidencyReport:
        books, claim = self._books, self._books.claim
        return ResidencyReport(
            budget_bytes=books.budget_bytes,
            charged_bytes=charged_bytes(books.slots.values()),
            models=tuple(slot.report() for slot in books.slots.values()),
            claimed_by=claim.waiter.ticket if claim else None,
            victims=tuple(victim.id for victim in claim.victims) if claim else (),
            draining=self._closed,
        )

    def check_integrity(self) -> None:
        """For tests. Raises `AssertionError` where the books contradict each other."""
        self._books.check_integrity()

    def __repr__(self) -> str:
        now = self.snapshot()
        models = " ".join(f"{model.id}={model.state}" for model in now.models)
        claim = f" | {now.claimed_by} waits for {' '.join(now.victims)}" if now.claimed_by else ""
        return (
            f"<Residency {now.charged_bytes}/{now.budget_bytes} bytes | {models} | "
            f"{self.lease_count} leases, {self.waiting_count} waiting{claim}>"
        )
