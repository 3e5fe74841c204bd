"""Sampling fields: defaults, ranges, and what the client itself has set."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from headrace.http.wire.fields import Fields
from headrace.http.wire.sampling import RULES, read_sampling
from headrace.runtime.contracts import Sampling
from headrace.runtime.errors import Code, RequestError


def read(**body: Any) -> tuple[Sampling, tuple[str, ...]]:
    return read_sampling(Fields(body), fresh_seed=7)


def test_every_field_of_a_row_can_be_asked_for() -> None:
    assert set(RULES) == {field.name for field in attrs.fields(Sampling)}


def test_without_fields_the_defaults_hold_and_the_seed_is_fresh() -> None:
    assert read() == (Sampling(seed=7), ())
    assert read(temperature=None, seed=None) == (Sampling(seed=7), ())


def test_what_the_client_sets_is_taken_and_remembered() -> None:
    sampling, given = read(temperature=0, seed=3.0, top_k=-1, logit_bias={"5": -100, "07": 1})
    expected = Sampling(seed=3, temperature=0.0, top_k=0, logit_bias=((5, -100.0), (7, 1.0)))
    assert sampling == expected
    assert set(given) == {"temperature", "seed", "top_k", "logit_bias"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 2),
        ("top_p", 0),
        ("top_p", 1),
        ("min_p", 1),
        ("xtc_threshold", 0.5),
        ("repetition_penalty", 10),
        ("presence_penalty", -2),
        ("frequency_penalty", 2),
        ("repetition_context_size", 0),
        ("min_tokens", 0),
        ("seed", -(2**63)),
        ("seed", 2**64 - 1),
        ("ignore_eos", True),
    ],
)
def test_the_borders_of_a_range_belong_to_it(name: str, value: Any) -> None:
    sampling, _ = read(**{name: value})
    assert getattr(sampling, name) == value


@pytest.mark.parametrize(
    ("name", "value", "code", "param"),
    [
        ("temperature", "x", Code.INVALID_TYPE, None),
        ("temperature", True, Code.INVALID_TYPE, None),
        ("temperature", 5, Code.INVALID_VALUE, None),
        ("temperature", -1, Code.INVALID_VALUE, None),
        ("top_p", 5, Code.INVALID_VALUE, None),
        ("top_p", [], Code.INVALID_TYPE, None),
        ("min_p", 2, Code.INVALID_VALUE, None),
        ("top_k", -2, Code.INVALID_VALUE, None),
        ("top_k", 1.5, Code.INVALID_TYPE, None),
        ("xtc_threshold", 0.6, Code.INVALID_VALUE, None),
        ("repetition_penalty", 0, Code.INVALID_VALUE, None),
        ("repetition_penalty", 11, Code.INVALID_VALUE, None),
        ("presence_penalty", 2.1, Code.INVALID_VALUE, None),
        ("frequency_context_size", -1, Code.INVALID_VALUE, None),
        ("seed", 2**64, Code.INVALID_VALUE, None),
        ("seed", "1", Code.INVALID_TYPE, None),
        ("ignore_eos", 1, Code.INVALID_TYPE, None),
        ("logit_bias", [], Code.INVALID_TYPE, None),
        ("logit_bias", {"x": 1}, Code.INVALID_VALUE, None),
        ("logit_bias", {"-1": 1}, Code.INVALID_VALUE, None),
        ("logit_bias", {"١": 1}, Code.INVALID_VALUE, None),
        ("logit_bias", {"1": None}, Code.INVALID_TYPE, "logit_bias.1"),
        ("logit_bias", {"1": True}, Code.INVALID_TYPE, "logit_bias.1"),
        ("logit_bias", {"1": 101}, Code.INVALID_VALUE, "logit_bias.1"),
    ],
)
def test_bad_values_are_named_i1_i2(name: str, value: Any, code: Code, param: str | None) -> None:
    with pytest.raises(RequestError) as caught:
        read(**{name: value})
    assert (caught.value.code, caught.value.info.param) == (code, param or name)


def test_counts_beyond_any_context_still_fit_an_array() -> None:
    sampling, _ = read(top_k=10**30, min_tokens=10**30)
    assert sampling.top_k == sampling.min_tokens == 2**31 - 1
