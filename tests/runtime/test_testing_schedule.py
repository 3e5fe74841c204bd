"""Choice points, seeds, exploration and replay."""

from __future__ import annotations

import random

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.testing import (
    Choices,
    ScheduleFailed,
    explore,
    replay,
    scheduled_by,
    seeded,
)


async def race(choices: Choices, tasks: int = 4, rounds: int = 3) -> list[tuple[int, int]]:
    """Tasks that are runnable together; the record is the order in which they ran."""
    record: list[tuple[int, int]] = []

    async def run(name: int) -> None:
        for round_ in range(rounds):
            record.append((round_, name))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for name in range(tasks):
            nursery.start_soon(run, name)
    return record


class TestChoices:
    @given(st.integers(), st.lists(st.integers(1, 50), max_size=30))
    def test_are_in_range_and_the_same_for_the_same_seed(
        self, seed: int, counts: list[int]
    ) -> None:
        one, other = Choices(seed), Choices(seed)
        drawn = [one.below(count) for count in counts]
        assert all(0 <= index < count for index, count in zip(drawn, counts, strict=True))
        assert drawn == [other.below(count) for count in counts]

    @given(st.integers(), st.integers(0, 20))
    def test_play_a_prefix_again_and_then_take_the_plainest(self, seed: int, kept: int) -> None:
        first = Choices(seed)
        drawn = [first.below(10) for _ in range(20)]
        again = Choices(prefix=first.taken[:kept])
        assert [again.below(10) for _ in range(20)] == drawn[:kept] + [0] * (20 - kept)

    def test_a_prefix_from_a_longer_list_of_options_stays_in_range(self) -> None:
        assert Choices(prefix=[9]).below(3) == 2

    @given(st.integers(), st.lists(st.integers(), max_size=8))
    def test_order_keeps_every_item(self, seed: int, items: list[int]) -> None:
        ordered = items.copy()
        Choices(seed).order(ordered)
        assert sorted(ordered) == sorted(items)

    def test_every_order_can_come(self) -> None:
        orders = set()
        for seed in range(200):
            items = [1, 2, 3]
            Choices(seed).order(items)
            orders.add(tuple(items))
        assert len(orders) == 6

    def test_the_plainest_are_first_least_no_and_as_it_is(self) -> None:
        plain = Choices()
        items = [3, 1, 2]
        plain.order(items)
        drawn = (plain.pick("ab"), plain.chance(), plain.between(4, 9), plain.seconds(1), items)
        assert drawn == ("a", False, 4, 0, [3, 1, 2])

    def test_are_drawn_from_the_whole_range(self) -> None:
        choices = Choices(1)
        assert {choices.pick("abc") for _ in range(100)} == set("abc")
        assert {choices.chance(3) for _ in range(100)} == {True, False}
        assert {choices.between(2, 4) for _ in range(100)} == {2, 3, 4}
        assert 0.9 < max(choices.seconds(1) for _ in range(100)) < 1


class TestSeeds:
    def test_one_seed_gives_one_order_and_many_give_many(self) -> None:
        def orders(seed: int) -> list[tuple[int, int]]:
            with seeded(seed) as choices:
                return trio.run(race, choices)

        assert orders(5) == orders(5)
        assert len({tuple(orders(seed)) for seed in range(20)}) == 20

    def test_without_a_seed_the_oldest_task_comes_first(self) -> None:
        with scheduled_by(Choices()) as choices:
            record = trio.run(race, choices)
        assert record == [(round_, name) for round_ in range(3) for name in range(4)]

    def test_trio_is_left_as_it_was(self) -> None:
        run = trio._core._run
        before = run._ALLOW_DETERMINISTIC_SCHEDULING, run._r
        with pytest.raises(KeyError), seeded(1):
            raise KeyError
        assert (run._ALLOW_DETERMINISTIC_SCHEDULING, run._r) == before
        assert type(run._r) is random.Random


async def lost_update(choices: Choices) -> None:
    """The textbook race: it fails only if a task is overtaken between its read and its write."""
    account = 0

    async def deposit() -> None:
        nonlocal account
        read = account
        for _ in range(choices.below(3)):
            await trio.lowlevel.checkpoint()
        account = read + 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(deposit)
        nursery.start_soon(deposit)
    assert account == 2, f"account is {account}"


class TestExplore:
    def test_runs_every_seed_and_counts(self) -> None:
        explored = explore(race, range(50), twice=True)
        assert explored.schedules == 50
        assert explored.most_choices >= 9
        assert explored.schedules_per_second > 0

    def test_finds_a_race_and_says_how_to_see_it_again(self) -> None:
        with pytest.raises(ScheduleFailed, match="seed") as caught:
            explore(lost_update, range(100))

        found = caught.value
        assert isinstance(found.__cause__, ExceptionGroup | AssertionError)
        with pytest.raises(ScheduleFailed) as again:
            replay(lost_update, seed=found.seed, keep=found.keep)
        assert again.value.taken == found.taken
        with pytest.raises(ScheduleFailed):
            replay(lost_update, taken=found.taken)

    def test_the_plain_schedule_of_the_same_scenario_is_right(self) -> None:
        replay(lost_update)

    def test_a_run_in_which_everybody_waits_fails_instead_of_hanging(self) -> None:
        async def stuck(choices: Choices) -> None:
            await trio.sleep_forever()

        with pytest.raises(ScheduleFailed) as caught:
            explore(stuck, [3])
        assert isinstance(caught.value.__cause__, trio.TooSlowError)

    def test_time_is_virtual_and_starts_at_zero_in_each_run(self) -> None:
        async def hours(choices: Choices) -> float:
            await trio.sleep(3600)
            return trio.current_time()

        assert replay(hours) == replay(hours) == 3600

    def test_a_scenario_that_does_not_repeat_itself_is_told(self) -> None:
        runs: list[int] = []

        async def drifts(choices: Choices) -> list[str]:
            runs.append(1)
            return ["same", f"run {len(runs)}"]

        with pytest.raises(ScheduleFailed, match="at 1 'run 1' and 'run 2'"):
            explore(drifts, [0], twice=True)


async def opens_in_time(choices: Choices) -> None:
    """Fails if of the first twelve choices the third is 1 and the seventh is 2 or more."""
    drawn = [choices.below(4) for _ in range(12)]
    for _ in range(200):
        choices.below(10)
    assert not (drawn[2] == 1 and drawn[6] >= 2), "the gate was shut"


class TestShrinking:
    def test_keeps_no_more_of_a_seed_than_is_needed(self) -> None:
        with pytest.raises(ScheduleFailed, match="the gate was shut") as caught:
            explore(opens_in_time, range(1000))
        found = caught.value
        # Seven of the scenario's, and what trio chooses before it begins.
        assert found.keep is not None
        assert 7 <= found.keep <= 9
        assert set(found.taken[found.keep :]) == {0}
        with pytest.raises(ScheduleFailed):
            replay(opens_in_time, seed=found.seed, keep=found.keep)
        replay(opens_in_time, seed=found.seed, keep=found.keep - 1)

    def test_prints_the_line_that_plays_it_again(self) -> None:
        with pytest.raises(ScheduleFailed) as caught:
            explore(opens_in_time, range(1000))
        line = str(caught.value).partition("play it again by ")[2]
        with pytest.raises(ScheduleFailed, match="the gate was shut"):
            eval(line, {"replay": replay, "scenario": opens_in_time})

    def test_does_not_take_another_failure_for_the_same(self) -> None:
        async def fails_in_two_ways(choices: Choices) -> None:
            drawn = [choices.below(4) for _ in range(4)]
            if drawn == [0, 0, 0, 0]:
                raise KeyError("the plainest run has a fault of its own")
            assert drawn[3] != 3

        with pytest.raises(ScheduleFailed, match="AssertionError") as caught:
            explore(fails_in_two_ways, range(1000))
        assert 3 in caught.value.taken

    def test_a_failure_of_every_run_needs_no_choice_at_all(self) -> None:
        async def always(choices: Choices) -> None:
            raise ValueError(choices.below(5))

        with pytest.raises(ScheduleFailed) as caught:
            explore(always, [3])
        assert caught.value.again == "replay(scenario, seed=3, keep=0)"
