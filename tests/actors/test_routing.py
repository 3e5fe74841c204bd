"""Which model a name means."""

import pytest

from headrace.actors.routing import Names, route
from headrace.runtime.errors import Code, RequestError

KNOWN = ("m", "m2")


def test_an_exact_id_is_that_model() -> None:
    assert route("m2", Names(), KNOWN, "m").model_id == "m2"


def test_a_further_name_is_its_model() -> None:
    assert route("gpt", Names(model_names={"gpt": "m2"}), KNOWN, "m").model_id == "m2"


@pytest.mark.parametrize("name", ["default", "local", "", None])
def test_aliases_and_no_name_are_the_current_model(name: str | None) -> None:
    assert route(name, Names(), KNOWN, "m").model_id == "m"


def test_no_name_is_missing_where_the_empty_alias_is_off() -> None:
    with pytest.raises(RequestError) as caught:
        route(None, Names(aliases=("default",)), KNOWN, "m")
    assert (caught.value.code, caught.value.info.param) == (Code.MISSING_FIELD, "model")


def test_d2_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(RequestError) as caught:
        route("mini", Names(), KNOWN, "m")
    assert caught.value.code is Code.MODEL_NOT_FOUND
    assert caught.value.info.details == {"known_models": ["m", "m2"]}


def test_an_unknown_name_is_the_current_model_only_on_request_and_says_so() -> None:
    answer = route("mini", Names(unknown_is_current=True), KNOWN, "m")
    assert answer.model_id == "m"
    assert [warning.code for warning in answer.warnings] == ["model_fallback"]


def test_an_alias_without_a_current_model_is_unavailable() -> None:
    with pytest.raises(RequestError) as caught:
        route("default", Names(), KNOWN, None)
    assert caught.value.code is Code.NO_CURRENT_MODEL


def test_fifty_known_models_are_shown_at_most() -> None:
    with pytest.raises(RequestError) as caught:
        route("x", Names(), [f"m{n}" for n in range(80)], None)
    details = caught.value.info.details or {}
    assert len(details["known_models"]) == 50
