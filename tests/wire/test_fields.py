"""Field readers: the type first, then the range, and a path in every error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.wire import fields as reading
from headrace.http.wire.fields import Fields, as_integer, as_number
from headrace.runtime.errors import Code, RequestError


def failure(read: Callable[[], object]) -> tuple[Code, str | None]:
    with pytest.raises(RequestError) as caught:
        read()
    return caught.value.code, caught.value.info.param


@pytest.mark.parametrize("value", [True, "3", 3.5, [3], {}, float("nan"), float("inf")])
def test_these_are_no_integers(value: Any) -> None:
    assert failure(lambda: as_integer(value, "n")) == (Code.INVALID_TYPE, "n")


@given(st.integers(-(2**53), 2**53))
def test_an_integer_may_be_written_with_a_zero_fraction(value: int) -> None:
    assert as_integer(value, "n") == as_integer(float(value), "n") == value
    assert isinstance(as_integer(float(value), "n"), int)


@pytest.mark.parametrize("value", [False, "1.5", None, [], {}])
def test_these_are_no_numbers(value: Any) -> None:
    assert failure(lambda: as_number(value, "t")) == (Code.INVALID_TYPE, "t")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_is_finite(value: float) -> None:
    assert failure(lambda: as_number(value, "t", 0, 2)) == (Code.INVALID_VALUE, "t")


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_in_its_range_or_refused(value: float) -> None:
    if 0 <= value <= 2:
        assert as_number(value, "t", 0, 2) == value
    else:
        assert failure(lambda: as_number(value, "t", 0, 2)) == (Code.INVALID_VALUE, "t")


def test_an_integer_larger_than_any_float_is_out_of_range() -> None:
    assert failure(lambda: as_number(10**400, "t", 0, 2)) == (Code.INVALID_VALUE, "t")


def test_an_open_lower_end_leaves_its_border_out() -> None:
    assert failure(lambda: as_number(0, "p", above=0)) == (Code.INVALID_VALUE, "p")
    assert as_number(5e-324, "p", above=0) == 5e-324


READERS = ["integer", "boolean", "text", "array", "object"]


@pytest.mark.parametrize("reader", READERS)
def test_null_stands_for_absent(reader: str) -> None:
    read = getattr(Fields({"a": None}), reader)
    assert read("a") is None
    assert read("b") is None


@pytest.mark.parametrize("reader", READERS)
def test_a_wrong_type_names_the_whole_path(reader: str) -> None:
    wrong: Any = "text" if reader != "text" else 5
    inner = Fields({"outer": [{"a": wrong}]}).array("outer")
    assert inner is not None
    fields = Fields.of(inner[0], "outer[0]")
    assert failure(lambda: getattr(fields, reader)("a")) == (Code.INVALID_TYPE, "outer[0].a")


def test_a_required_field_may_not_be_null() -> None:
    fields = Fields({"a": None}, "x")
    assert failure(lambda: fields.required("a")) == (Code.MISSING_FIELD, "x.a")


def test_a_choice_outside_the_list_is_out_of_range() -> None:
    read = reading.as_choice
    assert failure(lambda: read("c", "x", ["a", "b"])) == (Code.INVALID_VALUE, "x")
    assert failure(lambda: read(1, "x", ["a", "b"])) == (Code.INVALID_TYPE, "x")
