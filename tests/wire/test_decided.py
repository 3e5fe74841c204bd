"""The numbers of a decision, by the formulas of the wire contract."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.wire.decided import (
    as_shown,
    choice_confidence,
    expected_level,
    likeliest,
    score_confidence,
)
from headrace.runtime.errors import RequestError

weights = st.lists(st.floats(0.001, 1000), min_size=1, max_size=12)
distributions = weights.map(lambda drawn: tuple(weight / sum(drawn) for weight in drawn))


def test_the_contracts_own_values() -> None:
    assert choice_confidence((0.8, 0.1, 0.1)) == pytest.approx(0.7)
    assert expected_level((0.1, 0.1, 0.8)) == pytest.approx(1.7)
    assert score_confidence((0.1, 0.1, 0.8)) == pytest.approx(0.55)


def test_one_option_is_certain() -> None:
    assert choice_confidence((1.0,)) == score_confidence((1.0,)) == 1.0


def test_of_equals_the_first_is_taken() -> None:
    assert likeliest((0.25, 0.375, 0.375)) == 1


@given(distributions)
def test_confidence_lies_between_a_guess_and_certainty(p: tuple[float, ...]) -> None:
    for confidence in (choice_confidence(p), score_confidence(p)):
        assert 0 <= confidence <= 1 + 1e-9
    assert -1e-9 <= expected_level(p) <= len(p) - 1 + 1e-9


@given(st.integers(2, 20))
def test_a_blind_guess_has_no_confidence_and_certainty_has_all(n: int) -> None:
    even, sure = (1 / n,) * n, (1.0, *(0.0,) * (n - 1))
    assert choice_confidence(even) == pytest.approx(0)
    assert choice_confidence(sure) == score_confidence(sure) == 1
    assert score_confidence(even) == pytest.approx(0)


def test_texts_are_shown_as_they_are_and_values_as_compact_json() -> None:
    assert as_shown("a\nb", "state") == "a\nb"
    assert as_shown({"b": [1, None], "a": "ü"}, "state") == '{"b":[1,null],"a":"ü"}'
    with pytest.raises(RequestError):
        as_shown(5, "state")
