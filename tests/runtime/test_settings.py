from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import attrs
import pytest

from headrace.runtime.errors import SettingError
from headrace.runtime.settings import Settings


def test_the_defaults_are_those_of_the_contract() -> None:
    settings = Settings()

    assert (settings.host, settings.port) == ("127.0.0.1", 8080)
    assert settings.aliases == ("default", "local", "")
    assert settings.max_body_bytes == 64 * 1024 * 1024
    assert settings.prompt_cache_bytes == 8 * 1024**3
    assert (settings.queue_limit, settings.queue_timeout_s) == (64, 600)
    assert (settings.keepalive_s, settings.write_stall_s) == (10, 30)
    assert settings.memory_budget_bytes is None
    assert settings.decision_temperature == {"noul": 1, "choice": 1, "score": 1}


@pytest.mark.parametrize(
    ("name", "given", "held"),
    [
        ("port", 0, 0),
        ("keepalive_s", 2, 2.0),
        ("models", ["a", "b"], ("a", "b")),
        ("model_names", {"short": "long/name"}, {"short": "long/name"}),
        ("memory_budget_bytes", 1 << 40, 1 << 40),
        ("home", "some/folder", Path("some/folder")),
        ("home", Path("~/models"), Path.home() / "models"),
        ("thinking", "off", "off"),
    ],
)
def test_a_good_value_is_held_in_the_settings_own_type(name: str, given: Any, held: Any) -> None:
    value = getattr(Settings(**{name: given}), name)

    assert value == held
    assert type(value) is type(held)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", 65536),
        ("port", -1),
        ("port", True),
        ("port", "8080"),
        ("port", 8080.0),
        ("host", ""),
        ("host", None),
        ("log_json", 1),
        ("max_rows", 0),
        ("queue_limit", -1),
        ("keepalive_s", -0.1),
        ("keepalive_s", math.inf),
        ("keepalive_s", math.nan),
        ("step_timeout_s", 0),
        ("models", "one"),
        ("models", ["a", ""]),
        ("model_names", ["a"]),
        ("model_names", {"a": 1}),
        ("decision_temperature", {"other": 1}),
        ("decision_temperature", {"noul": 0}),
        ("unknown_model", "guess"),
        ("thinking", None),
        ("home", 3),
        ("home", ""),
        ("memory_budget_bytes", -1),
    ],
)
def test_a_bad_value_is_refused_with_the_settings_name(name: str, value: Any) -> None:
    with pytest.raises(SettingError, match=rf"^{name}: "):
        Settings(**{name: value})


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(TypeError, match="prot"):
        Settings(prot=8080)  # type: ignore[call-arg]


def test_settings_cannot_be_changed_nor_share_their_tables() -> None:
    names = {"short": "long"}
    settings = Settings(model_names=names)

    names["short"] = "other"

    assert settings.model_names == {"short": "long"}
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        settings.port = 1  # type: ignore[misc]


def test_a_copy_with_a_change_is_validated_too() -> None:
    assert attrs.evolve(Settings(), port=9).port == 9
    with pytest.raises(SettingError, match="port"):
        attrs.evolve(Settings(), port=-9)


def test_keys_are_shown_nowhere() -> None:
    settings = Settings(api_keys=("sesame",))

    assert settings.api_keys == ("sesame",)
    assert "sesame" not in repr(settings)
    assert "sesame" not in str(settings.public())
    assert "api_keys" not in settings.public()


def test_a_refused_key_is_not_repeated() -> None:
    with pytest.raises(SettingError) as caught:
        Settings(api_keys="sesame")  # type: ignore[arg-type]
    assert "sesame" not in str(caught.value)


def test_the_public_view_holds_plain_values() -> None:
    public = Settings(home=Path("models"), models=("a",)).public()

    assert public["home"] == "models"
    assert public["models"] == ("a",)
    assert public["port"] == 8080
