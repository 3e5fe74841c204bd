"""How long a worker may be silent, phase by phase."""

import hypothesis.strategies as st
from hypothesis import given

from headrace.actors.patience import Patience

limits = st.floats(min_value=0.01, max_value=31_536_000)


@given(limits)
def test_while_it_starts_and_loads_the_watchdog_of_steps_says_nothing(step_seconds: float) -> None:
    patience = Patience(start_seconds=30, load_seconds=15)
    assert patience.silence_seconds("starting", step_seconds) == 30
    assert patience.silence_seconds("loading", step_seconds) == 15


@given(limits)
def test_a_hung_step_is_the_watchdogs_before_it_is_silence(step_seconds: float) -> None:
    patience = Patience()
    allowed = patience.silence_seconds("ready", step_seconds)
    assert allowed >= min(step_seconds + 2, patience.most_seconds)
    assert allowed <= step_seconds + 5


def test_however_long_a_step_may_be_a_worker_that_stands_still_is_found_in_half_a_minute() -> None:
    assert Patience().silence_seconds("ready", 3600) == 30


def test_whoever_wants_to_know_soon_does_not_wait_for_the_whole_margin() -> None:
    assert Patience().silence_seconds("ready", 0.5) == 2.5
    assert Patience().silence_seconds("ready", 3) == 6
