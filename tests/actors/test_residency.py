"""Residency in stories: who is in memory, who waits for whom, and how each ticket ends."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from headrace.actors.residence import Action, Cancel, Fail, Grant, Load, Unload
from headrace.actors.residency import Residency
from headrace.runtime.errors import Code

# In bytes, under a budget of 100: two large ones never fit together.
SIZES = {
    "m": 60, "m2": 60, "m3": 60, "left": 50, "right": 50, "third": 50,
    "tiny": 10, "twenty": 20, "small": 30, "thirty": 30, "forty": 40, "ninety": 90, "huge": 130,
}  # fmt: skip


class Owner:
    """Carries actions out at the test's word and keeps what was told to whom.

    `memory` counts bytes as a machine would: from the start of a load until it is freed.
    """

    def __init__(self, overtakes: int = 32) -> None:
        self.residency = Residency(100, overtakes=overtakes)
        self.now = 0.0
        self.memory: dict[str, int] = {}
        self.peak_bytes = 0
        self.told: list[Action] = []

    def take(self, actions: list[Action]) -> list[Action]:
        for action in actions:
            if isinstance(action, Load):
                self.memory[action.model_id] = action.estimate_bytes
        self.peak_bytes = max(self.peak_bytes, sum(self.memory.values()))
        self.told += actions
        self.residency.check_integrity()
        return actions

    def acquire(self, ticket: str, model: str) -> list[Action]:
        self.now += 1
        return self.take(self.residency.acquire(ticket, model, SIZES[model], self.now))

    def release(self, ticket: str) -> list[Action]:
        self.now += 1
        return self.take(self.residency.release(ticket, self.now))

    def loaded(self, model: str) -> list[Action]:
        return self.take(self.residency.loaded(model, SIZES[model], self.now))

    def unloaded(self, model: str) -> list[Action]:
        self.memory.pop(model)
        return self.take(self.residency.unloaded(model, self.now))

    def died(self, model: str, respawn: bool = True) -> list[Action]:
        self.memory.pop(model)
        return self.take(self.residency.died(model, self.now, respawn=respawn))

    def resident(self, *models: str) -> Owner:
        """These are in memory and nobody holds them, the first one the least recently used."""
        for model in models:
            self.acquire("setup", model)
            self.loaded(model)
            self.release("setup")
        self.told.clear()
        return self

    def state(self, model: str) -> str:
        models = self.residency.snapshot().models
        return next((known.state for known in models if known.id == model), "unknown")


@pytest.fixture
def owner() -> Owner:
    return Owner()


# ---- one model ---------------------------------------------------------------------------------


def test_a_cold_model_is_loaded_once_for_all_who_ask(owner: Owner) -> None:
    first = owner.acquire("t0", "m")
    for number in range(1, 8):
        assert owner.acquire(f"t{number}", "m") == []

    assert first == [Load("m", 60)]
    assert owner.loaded("m") == [Grant(f"t{number}", "m") for number in range(8)]


def test_a_ready_model_is_granted_at_once(owner: Owner) -> None:
    owner.resident("m")
    assert owner.acquire("t", "m") == [Grant("t", "m")]


def test_a_client_that_leaves_during_the_load_gets_no_lease(owner: Owner) -> None:
    owner.acquire("gone", "m")
    owner.acquire("stays", "m")
    assert owner.release("gone") == []
    assert owner.loaded("m") == [Grant("stays", "m")]


def test_a_release_is_valid_in_every_state_and_any_number_of_times(owner: Owner) -> None:
    assert owner.release("unknown") == []
    owner.acquire("t", "m")
    owner.release("t")
    owner.release("t")
    owner.loaded("m")
    owner.acquire("u", "m")
    owner.release("u")
    assert owner.release("u") == []
    assert owner.residency.lease_count == owner.residency.waiting_count == 0


def test_a_failed_load_fails_all_its_waiters_and_the_next_one_tries_again(owner: Owner) -> None:
    owner.acquire("t1", "m")
    owner.acquire("t2", "m")
    failed = owner.take(owner.residency.load_failed("m", owner.now, "no such file"))

    assert failed == [
        Fail("t1", "m", Code.LOAD_FAILED, "no such file"),
        Fail("t2", "m", Code.LOAD_FAILED, "no such file"),
    ]
    assert owner.state("m") == "load_failed"
    assert owner.acquire("t3", "m") == [Load("m", 60)]


def test_a_ticket_cannot_be_used_twice_at_a_time(owner: Owner) -> None:
    owner.acquire("t", "m")
    with pytest.raises(ValueError, match="t is in use"):
        owner.acquire("t", "m")


# ---- several models under one budget -----------------------------------------------------------


def test_models_that_fit_together_load_together(owner: Owner) -> None:
    assert owner.acquire("t1", "m") == [Load("m", 60)]
    assert owner.acquire("t2", "small") == [Load("small", 30)]
    assert owner.loaded("small") == [Grant("t2", "small")]


def test_of_two_models_that_do_not_fit_together_one_waits_for_the_other(owner: Owner) -> None:
    # Given two clients who ask at the same time
    assert owner.acquire("t1", "m") == [Load("m", 60)]
    assert owner.acquire("t2", "m2") == []
    owner.loaded("m")
    # When the first is done, its model makes room, and only then the second loads
    assert owner.release("t1") == [Unload("m", "evicted")]
    assert owner.unloaded("m") == [Load("m2", 60)]
    assert owner.loaded("m2") == [Grant("t2", "m2")]
    assert owner.peak_bytes <= 100


def test_the_idle_model_is_gone_before_the_new_one_comes(owner: Owner) -> None:
    owner.resident("m")
    for turn, model in enumerate(["m2", "m", "m2", "m"]):
        (unload,) = owner.acquire(f"t{turn}", model)
        assert isinstance(unload, Unload)
        assert owner.unloaded(unload.model_id) == [Load(model, 60)]
        owner.loaded(model)
        owner.release(f"t{turn}")
    assert owner.peak_bytes == 60


def test_the_least_recently_used_goes_first(owner: Owner) -> None:
    owner.resident("small", "tiny", "m")
    owner.acquire("t", "small")
    owner.release("t")
    assert owner.acquire("t2", "m2") == [Unload("m", "evicted")]


def test_as_few_as_possible_go(owner: Owner) -> None:
    # `tiny` is older, but its 10 bytes would not do and `m` alone does.
    owner.resident("tiny", "small", "m")
    assert owner.acquire("t", "m2") == [Unload("m", "evicted")]


def test_nobody_goes_for_a_model_that_cannot_come_yet(owner: Owner) -> None:
    owner.resident("small", "m")
    owner.acquire("t1", "m")
    # `huge` needs both gone; `small` stays useful until `m` is done.
    assert owner.acquire("t2", "huge") == []
    assert owner.acquire("t3", "small") == [Grant("t3", "small")]
    owner.release("t3")
    assert owner.release("t1") == [Unload("small", "evicted"), Unload("m", "evicted")]


def test_a_lone_model_above_the_budget_is_served_alone(owner: Owner) -> None:
    owner.resident("tiny")
    assert owner.acquire("t1", "huge") == [Unload("tiny", "evicted")]
    assert owner.unloaded("tiny") == [Load("huge", 130)]
    owner.loaded("huge")
    assert owner.acquire("t2", "tiny") == []
    assert owner.release("t1") == [Unload("huge", "evicted")]
    assert owner.unloaded("huge") == [Load("tiny", 10)]


def test_a_small_model_is_loaded_beside_a_waiting_one_only_if_both_will_fit() -> None:
    owner = Owner()
    owner.resident("m")
    owner.acquire("t1", "m")
    owner.acquire("t2", "m2")  # waits for m
    assert owner.acquire("t3", "small") == [Load("small", 30)]
    assert owner.acquire("t4", "tiny") == [Load("tiny", 10)]
    owner.release("t1")
    assert owner.unloaded("m") == [Load("m2", 60)]


def test_a_newcomer_cannot_take_the_room_that_a_waiting_model_needs(owner: Owner) -> None:
    owner.resident("small")
    owner.acquire("t1", "small")
    owner.acquire("t2", "huge")  # waits for everything to go
    assert owner.acquire("t3", "tiny") == []
    owner.release("t1")
    assert owner.unloaded("small") == [Load("huge", 130)]


def test_a_newcomer_does_not_send_away_what_a_waiting_model_will_send_away_itself() -> None:
    # Given a waiter for the end of two models, one of which is idle
    owner = Owner().resident("forty", "left")
    owner.acquire("t1", "left")
    owner.acquire("t2", "ninety")
    assert set(owner.residency.snapshot().victims) == {"forty", "left"}
    # Then the idle one stays until both can go
    assert owner.acquire("t3", "twenty") == []
    assert owner.state("forty") == "ready"


def test_a_model_too_large_for_the_budget_sends_nobody_away_before_its_turn(owner: Owner) -> None:
    owner.resident("tiny", "m")
    assert owner.acquire("t1", "m2") == [Unload("m", "evicted")]
    assert owner.acquire("t2", "huge") == []
    assert owner.unloaded("m") == [Load("m2", 60)]


def test_more_waiters_for_a_model_make_no_more_room_for_it(owner: Owner) -> None:
    owner.resident("left", "right")
    assert owner.acquire("t1", "third") == [Unload("left", "evicted")]
    assert owner.acquire("t2", "third") == []


def test_a_busy_model_is_waited_for_only_if_idle_ones_do_not_help_enough(owner: Owner) -> None:
    owner.resident("small", "thirty", "forty")
    owner.acquire("t1", "thirty")
    owner.acquire("t2", "forty")
    # 60 bytes: the idle `small` gives 30, so one busy model is enough, the older one
    owner.acquire("t3", "m")
    assert owner.residency.snapshot().victims == ("thirty", "small")


def test_a_load_that_nobody_waits_for_any_more_gives_way(owner: Owner) -> None:
    owner.acquire("t1", "m")
    owner.acquire("t2", "m2")
    assert owner.release("t1") == [Unload("m", "evicted")]
    # The load was given up too late and came to its end; it is freed all the same.
    assert owner.loaded("m") == []
    assert owner.unloaded("m") == [Load("m2", 60)]


# ---- fairness ----------------------------------------------------------------------------------


def test_a_busy_model_takes_so_many_leases_past_a_waiter_and_no_more() -> None:
    owner = Owner(overtakes=2)
    owner.resident("m")
    owner.acquire("t1", "m")
    owner.acquire("waits", "m2")
    # Two may overtake, the third queues behind
    assert owner.acquire("t2", "m") == [Grant("t2", "m")]
    assert owner.acquire("t3", "m") == [Grant("t3", "m")]
    assert owner.acquire("t4", "m") == []
    for ticket in ("t1", "t2"):
        assert owner.release(ticket) == []
    assert owner.release("t3") == [Unload("m", "evicted")]
    owner.unloaded("m")
    # Then it is the other way round: m2 makes room for the one that was held back
    assert owner.loaded("m2") == [Grant("waits", "m2")]
    assert owner.release("waits") == [Unload("m2", "evicted")]
    assert owner.unloaded("m2") == [Load("m", 60)]
    assert owner.loaded("m") == [Grant("t4", "m")]


def test_who_came_before_the_waiter_does_not_overtake_it() -> None:
    owner = Owner(overtakes=1)
    for ticket, model in [("t1", "m"), ("t2", "m"), ("waits", "m2"), ("t3", "m"), ("t4", "m")]:
        owner.acquire(ticket, model)
    # Only the third comes past the waiter, and that is one
    assert owner.loaded("m") == [Grant("t1", "m"), Grant("t2", "m"), Grant("t3", "m")]
    assert owner.residency.waiting_count == 2


def test_when_the_waiter_leaves_those_held_back_go_on() -> None:
    owner = Owner(overtakes=0)
    owner.resident("m")
    owner.acquire("t1", "m")
    owner.acquire("waits", "m2")
    assert owner.acquire("t2", "m") == []
    assert owner.release("waits") == [Grant("t2", "m")]


def test_a_model_that_is_not_in_the_way_is_not_held_back() -> None:
    owner = Owner(overtakes=0)
    owner.resident("small", "m")
    owner.acquire("t1", "m")
    owner.acquire("waits", "m2")
    assert owner.acquire("t2", "small") == [Grant("t2", "small")]


def test_the_wait_does_not_wander_between_busy_models() -> None:
    # Given two busy models, either of which would do, and a waiter for a third
    owner = Owner(overtakes=0)
    owner.resident("left", "right")
    owner.acquire("r1", "right")
    owner.acquire("r2", "right")
    owner.acquire("l1", "left")
    owner.acquire("waits", "small")
    assert owner.residency.snapshot().victims == ("right",)
    # When the end of a lease makes the chosen one the more recently used
    owner.release("r1")
    # Then it is still the chosen one, takes no new lease, and goes
    assert owner.acquire("r3", "right") == []
    assert owner.acquire("l2", "left") == [Grant("l2", "left")]
    assert owner.release("r2") == [Unload("right", "evicted")]


def test_a_model_that_is_no_longer_in_the_way_takes_leases_again() -> None:
    owner = Owner(overtakes=0).resident("left", "right")
    owner.acquire("l1", "left")
    owner.acquire("r1", "right")
    owner.acquire("waits", "ninety")
    assert owner.acquire("l2", "left") == []
    # When it turns out to be so small that the other's end will do
    shrunk = owner.take(owner.residency.measured("left", 5, owner.now))
    assert shrunk == [Grant("l2", "left")]
    assert owner.residency.snapshot().victims == ("right",)


@given(overtakes=st.integers(0, 4), data=st.data())
def test_a_waiter_is_served_within_the_bound_whatever_others_do(
    overtakes: int, data: st.DataObject
) -> None:
    """The bound where no two models fit together: with L leases held and n tickets waiting when
    it comes, a ticket is served before more than L + n + (n + 1) * overtakes leases ended."""
    owner = Owner(overtakes)
    names = ["m", "m2", "m3"]
    held: list[str] = []
    waiting: list[str] = []
    count = 0

    def play(actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Grant):
                waiting.remove(action.ticket)
                held.append(action.ticket)
        for action in actions:  # loads and unloads end at once: only leases take time here
            if isinstance(action, Load):
                play(owner.loaded(action.model_id))
            elif isinstance(action, Unload):
                play(owner.unloaded(action.model_id))

    def ask(model: str) -> str:
        nonlocal count
        count += 1
        waiting.append(f"t{count}")
        play(owner.acquire(f"t{count}", model))
        return f"t{count}"

    for model in data.draw(st.lists(st.sampled_from(names), max_size=12)):
        ask(model)
    leases, ahead, ended = len(held), len(waiting), 0
    ours = ask(data.draw(st.sampled_from(names)))
    bound = leases + ahead + (ahead + 1) * overtakes
    while ours in waiting:
        for model in data.draw(st.lists(st.sampled_from(names), max_size=3)):
            ask(model)
        ticket = held.pop(data.draw(st.integers(0, len(held) - 1)))
        ended += 1
        assert ended <= bound
        play(owner.release(ticket))


# ---- pins --------------------------------------------------------------------------------------


def test_a_pinned_model_never_makes_room(owner: Owner) -> None:
    owner.resident("small", "m")
    owner.residency.pin("small", owner.now)
    assert owner.acquire("t", "m2") == [Unload("m", "evicted")]
    assert owner.residency.idle(owner.now + 1e6, 1.0) == []
    assert owner.state("small") == "ready"


def test_who_cannot_fit_beside_the_pinned_is_told_so(owner: Owner) -> None:
    owner.resident("m")
    owner.acquire("t0", "m")
    assert owner.acquire("t1", "m2") == []
    why = "60 bytes are needed, pinned models leave 40"
    pinned = owner.take(owner.residency.pin("m", owner.now))
    assert pinned == [Fail("t1", "m2", Code.DOES_NOT_FIT, why)]
    assert owner.acquire("t2", "m2") == [Fail("t2", "m2", Code.DOES_NOT_FIT, why)]
    owner.residency.unpin("m", owner.now)
    assert owner.acquire("t3", "m2") == []


# ---- unload by hand ----------------------------------------------------------------------------


def test_a_request_during_unload_waits_for_it_and_then_loads_like_any_other(owner: Owner) -> None:
    owner.resident("m")
    for turn in range(20):
        answer, actions = owner.residency.unload("m", owner.now)
        assert (answer, owner.take(actions)) == (
            "unloading",
            [Unload("m", "unloaded_by_request")],
        )
        assert owner.acquire(f"t{turn}", "m") == []
        assert owner.state("m") == "draining"
        assert owner.unloaded("m") == [Load("m", 60)]
        assert owner.loaded("m") == [Grant(f"t{turn}", "m")]
        owner.release(f"t{turn}")
    assert owner.residency.snapshot().charged_bytes == 60


def test_a_leased_model_is_unloaded_by_force_only(owner: Owner) -> None:
    owner.resident("m")
    owner.acquire("t1", "m")
    owner.acquire("t2", "m")
    assert owner.residency.unload("m", owner.now) == ("in-use", [])

    answer, actions = owner.residency.unload("m", owner.now, force=True)

    assert answer == "unloading"
    why = "the model was unloaded by request"
    assert owner.take(actions) == [
        Cancel("t1", "m", Code.MODEL_UNLOADED, why),
        Cancel("t2", "m", Code.MODEL_UNLOADED, why),
        Unload("m", "unloaded_by_request"),
    ]
    # The requests end and release what they no longer hold
    assert owner.release("t1") == []
    owner.unloaded("m")
    assert owner.state("m") == "unloaded_by_request"


def test_force_fails_those_who_wait_for_the_load(owner: Owner) -> None:
    owner.acquire("t", "m")
    assert owner.residency.unload("m", owner.now)[0] == "in-use"
    _answer, actions = owner.residency.unload("m", owner.now, force=True)
    assert [type(action) for action in owner.take(actions)] == [Fail, Unload]
    owner.unloaded("m")
    assert owner.state("m") == "unloaded_by_request"


def test_unload_of_what_is_not_there_or_going_already_is_no_error(owner: Owner) -> None:
    assert owner.residency.unload("m", owner.now) == ("absent", [])
    assert owner.state("m") == "never_loaded"
    owner.resident("m")
    owner.residency.unload("m", owner.now)
    assert owner.residency.unload("m", owner.now) == ("unloading", [])


def test_a_model_that_goes_is_not_loaded_a_second_time_beside_itself(owner: Owner) -> None:
    owner.resident("tiny")
    owner.take(owner.residency.unload("tiny", owner.now)[1])
    assert owner.acquire("t", "tiny") == []
    assert owner.unloaded("tiny") == [Load("tiny", 10)]


def test_a_pinned_model_is_unloaded_by_force_and_its_pin_is_off(owner: Owner) -> None:
    owner.resident("m")
    owner.residency.pin("m", owner.now)
    assert owner.residency.unload("m", owner.now) == ("in-use", [])
    owner.take(owner.residency.unload("m", owner.now, force=True)[1])
    owner.unloaded("m")
    owner.resident("m")
    assert owner.acquire("t", "m2") == [Unload("m", "evicted")]


# ---- deaths ------------------------------------------------------------------------------------


def test_a_death_ends_the_leases_of_that_model_only_and_it_comes_back_unasked(
    owner: Owner,
) -> None:
    owner.resident("small", "m")
    owner.acquire("t1", "m")
    owner.acquire("t2", "small")
    assert owner.died("m") == [
        Cancel("t1", "m", Code.ENGINE_UNAVAILABLE, "the engine died"),
        Load("m", 60),
    ]
    assert owner.state("m") == "restarting"
    assert owner.acquire("t3", "m") == []
    assert owner.loaded("m") == [Grant("t3", "m")]


def test_a_death_while_loading_fails_the_waiters(owner: Owner) -> None:
    owner.acquire("t", "m")
    assert owner.died("m") == [
        Fail("t", "m", Code.ENGINE_UNAVAILABLE, "the engine died"),
        Load("m", 60),
    ]


def test_who_waits_for_another_model_comes_before_the_respawn(owner: Owner) -> None:
    owner.resident("m")
    owner.acquire("t1", "m")
    owner.acquire("t2", "m2")
    assert owner.died("m")[1:] == [Load("m2", 60)]
    assert owner.state("m") == "crashed"


def test_a_pinned_model_keeps_its_place_over_a_death(owner: Owner) -> None:
    owner.resident("left", "right")
    owner.residency.pin("left", owner.now)
    owner.acquire("t1", "right")
    assert owner.acquire("t2", "small") == []
    assert owner.died("left") == [Load("left", 50)]


def test_a_model_that_died_too_often_refuses_until_it_is_asked_for_by_hand(owner: Owner) -> None:
    owner.resident("m")
    assert owner.died("m", respawn=False) == []
    assert owner.state("m") == "crashed"
    why = "the engine died too often"
    assert owner.acquire("t1", "m") == [Fail("t1", "m", Code.ENGINE_UNAVAILABLE, why)]

    assert owner.take(owner.residency.preload("hand", "m", 60, owner.now)) == [Load("m", 60)]
    assert owner.acquire("t2", "m") == []
    assert owner.loaded("m") == [Grant("hand", "m"), Grant("t2", "m")]


def test_an_unload_also_forgives_the_deaths(owner: Owner) -> None:
    owner.resident("m")
    owner.died("m", respawn=False)
    owner.residency.unload("m", owner.now)
    assert owner.state("m") == "unloaded_by_request"
    assert owner.acquire("t", "m") == [Load("m", 60)]


def test_a_death_during_unload_frees_the_memory_all_the_same(owner: Owner) -> None:
    owner.resident("m")
    owner.acquire("t", "m2")
    assert owner.died("m") == [Load("m2", 60)]
    assert owner.state("m") == "evicted"


# ---- measurements, time, the gate --------------------------------------------------------------


def test_a_model_larger_than_its_estimate_is_estimated_by_what_it_took(owner: Owner) -> None:
    owner.acquire("t1", "small")
    owner.take(owner.residency.loaded("small", 45, owner.now))
    owner.release("t1")
    assert owner.acquire("t2", "m") == [Unload("small", "evicted")]
    owner.unloaded("small")
    owner.loaded("m")
    owner.release("t2")
    assert owner.acquire("t3", "small") == [Unload("m", "evicted")]
    assert owner.unloaded("m") == [Load("small", 45)]


def test_a_respawn_sets_aside_what_the_load_before_took(owner: Owner) -> None:
    owner.acquire("t", "small")
    owner.take(owner.residency.loaded("small", 45, owner.now))
    assert owner.died("small")[1:] == [Load("small", 45)]


def test_growth_above_the_budget_sends_idle_models_away(owner: Owner) -> None:
    owner.resident("small", "m")
    owner.acquire("t", "m")
    grown = owner.take(owner.residency.measured("m", 80, owner.now))
    assert grown == [Unload("small", "evicted")]


def test_a_model_that_comes_larger_than_expected_serves_first_those_it_came_for(
    owner: Owner,
) -> None:
    owner.resident("m")
    owner.acquire("t1", "m")
    owner.acquire("t2", "small")
    owner.release("t1")
    came = owner.take(owner.residency.loaded("small", 50, owner.now))
    assert came == [Grant("t2", "small"), Unload("m", "evicted")]


def test_a_model_is_not_given_up_before_it_served_those_it_came_for() -> None:
    # Given a waiter for room that only the end of `small` can give
    owner = Owner()
    owner.resident("left")
    owner.acquire("l1", "left")
    owner.acquire("t1", "right")
    owner.acquire("waits", "m2")
    owner.acquire("t2", "right")
    # When the model it waits for comes into memory, its own waiters are served first
    assert owner.loaded("right") == [Grant("t1", "right"), Grant("t2", "right")]


def test_the_last_one_may_stand_above_the_budget_alone(owner: Owner) -> None:
    owner.resident("m")
    assert owner.take(owner.residency.measured("m", 120, owner.now)) == []


def test_a_model_that_shrinks_lets_a_waiter_in(owner: Owner) -> None:
    owner.resident("m")
    owner.acquire("t1", "m")
    owner.acquire("t2", "m2")
    assert owner.take(owner.residency.measured("m", 40, owner.now)) == [Load("m2", 60)]


def test_an_unused_model_goes_after_its_time(owner: Owner) -> None:
    owner.resident("small", "m")
    owner.acquire("t", "m")
    due = owner.residency.next_idle(30.0)
    assert due is not None
    assert owner.residency.idle(due - 0.1, 30.0) == []
    assert owner.take(owner.residency.idle(due, 30.0)) == [Unload("small", "unloaded_idle")]
    owner.unloaded("small")
    assert owner.state("small") == "unloaded_idle"
    assert owner.residency.next_idle(30.0) is None


def test_a_closed_gate_refuses_newcomers_and_serves_those_who_wait(owner: Owner) -> None:
    owner.acquire("t1", "m")
    owner.residency.close_to_new()
    assert owner.acquire("t2", "m") == [
        Fail("t2", "m", Code.DRAINING, "no new requests are taken"),
    ]
    assert owner.loaded("m") == [Grant("t1", "m")]
    owner.residency.open_to_new()
    assert owner.acquire("t3", "m") == [Grant("t3", "m")]


def test_a_report_that_contradicts_the_state_is_refused(owner: Owner) -> None:
    owner.resident("m")
    with pytest.raises(ValueError, match="m is said to have loaded, but it is ready"):
        owner.residency.loaded("m", 60, owner.now)
    with pytest.raises(ValueError, match="unloaded, but it is ready"):
        owner.residency.unloaded("m", owner.now)
    with pytest.raises(ValueError, match="failed to load, but it is ready"):
        owner.residency.load_failed("m", owner.now, "late")


def test_it_says_what_is_going_on(owner: Owner) -> None:
    owner.acquire("t1", "m")
    owner.acquire("t2", "m2")
    assert repr(owner.residency) == (
        "<Residency 60/100 bytes | m=loading m2=never_loaded | 0 leases, 2 waiting"
        " | t2 waits for m>"
    )
    report = owner.residency.snapshot()
    assert (report.charged_bytes, report.claimed_by, report.victims) == (60, "t2", ("m",))
    assert report.models[0].waiting == 1
    assert report.models[0].last_used_at is None
