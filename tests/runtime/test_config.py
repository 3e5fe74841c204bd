from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.config import Option, config_file, options, resolve, usual_file
from headrace.runtime.errors import SettingError
from headrace.runtime.settings import Settings, plain

# ---- which source wins ----------------------------------------------------------------------


def test_without_any_source_all_is_default() -> None:
    resolution = resolve()

    assert resolution.settings == Settings()
    assert set(resolution.origins.values()) == {"default"}


def test_the_later_source_wins_and_is_remembered(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text("port = 1\nmax_rows = 2\nmax_n = 3\n")

    resolution = resolve(
        file=file,
        environ={"HEADRACE_PORT": "4", "HEADRACE_MAX_ROWS": "5", "PATH": "/bin"},
        arguments={"port": 6, "host": None},
    )

    settings, origins = resolution.settings, resolution.origins
    assert (settings.port, settings.max_rows, settings.max_n) == (6, 5, 3)
    assert origins["port"] == "command line --port"
    assert origins["max_rows"] == "environment HEADRACE_MAX_ROWS"
    assert origins["max_n"] == f"file {file}"
    assert origins["host"] == "default"


def test_the_variable_that_names_the_config_file_is_no_setting() -> None:
    assert resolve(environ={"HEADRACE_CONFIG": "x.toml"}).settings == Settings()


@pytest.mark.parametrize("variable", ["HEADRACE_URL", "HEADRACE_API_KEY"])
def test_what_clients_of_a_server_read_is_no_setting(variable: str) -> None:
    assert resolve(environ={variable: "x"}).settings == Settings()


# ---- where the config file is looked for ----------------------------------------------------


@pytest.fixture
def usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The usual place of the config file, for a user who has none yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return usual_file()


def test_the_usual_file_counts_when_it_is_there(usual: Path) -> None:
    assert config_file(None, {}) is None
    usual.parent.mkdir(parents=True)
    usual.write_text("port = 1\n")
    assert config_file(None, {}) == usual
    assert resolve(file=config_file(None, {})).settings.port == 1


def test_a_file_that_was_named_counts_before_the_usual_one(usual: Path) -> None:
    usual.parent.mkdir(parents=True)
    usual.write_text("")
    named = {"HEADRACE_CONFIG": "~/named.toml"}
    assert config_file(None, named) == Path("~/named.toml").expanduser()
    assert config_file(Path("chosen.toml"), named) == Path("chosen.toml")
    assert config_file(None, {"HEADRACE_CONFIG": ""}) is None


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    missing = {"HEADRACE_CONFIG": str(tmp_path / "missing.toml")}
    with pytest.raises(SettingError, match=r"missing\.toml: No such file"):
        resolve(file=config_file(None, missing))


# ---- each type from each source -------------------------------------------------------------

CASES = [
    ("host", "0.0.0.0", "0.0.0.0", 'host = "0.0.0.0"'),
    ("host", "12", "12", 'host = "12"'),
    ("model", "a/b", "a/b", 'model = "a/b"'),
    ("home", "models", Path("models"), 'home = "models"'),
    ("port", "12", 12, "port = 12"),
    ("memory_budget_bytes", "1000", 1000, "memory_budget_bytes = 1_000"),
    ("keepalive_s", "0.5", 0.5, "keepalive_s = 0.5"),
    ("keepalive_s", "3", 3.0, "keepalive_s = 3"),
    ("log_json", "true", True, "log_json = true"),
    ("thinking", "off", "off", 'thinking = "off"'),
    ("aliases", '["a","b"]', ("a", "b"), 'aliases = ["a", "b"]'),
    ("aliases", "[]", (), "aliases = []"),
    ("model_names", '{"a":"b"}', {"a": "b"}, '[model_names]\na = "b"'),
    ("decision_temperature", '{"noul":2}', {"noul": 2.0}, "decision_temperature.noul = 2"),
]


@pytest.mark.parametrize(("name", "text", "value", "toml"), CASES)
def test_a_value_is_the_same_from_every_source(
    name: str, text: str, value: Any, toml: str, tmp_path: Path
) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text(toml)
    given_as = {
        "file": resolve(file=file),
        "environment": resolve(environ={f"HEADRACE_{name.upper()}": text}),
        "command line text": resolve(arguments={name: text}),
        "command line value": resolve(arguments={name: value}),
        "keyword": resolve(arguments=attrs.asdict(Settings(**{name: value}))),
    }
    assert {key: getattr(r.settings, name) for key, r in given_as.items()} == dict.fromkeys(
        given_as, value
    )


@st.composite
def changed_settings(draw: st.DrawFn) -> dict[str, Any]:
    """Any subset of the settings with any values that they allow."""
    chosen = draw(st.lists(st.sampled_from(list(options())), unique_by=lambda option: option.name))
    return {option.name: draw(values_of(option)) for option in chosen}


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)
BY_KIND: dict[type, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(1, 65535),
    float: st.floats(0.001, 1000),
    str: WORDS,
    Path: WORDS.filter(lambda word: not word.startswith("~")),
    tuple: st.lists(WORDS),
}


def values_of(option: Option) -> st.SearchStrategy[Any]:
    if option.choices:
        return st.sampled_from(option.choices)
    if option.name == "decision_temperature":
        return st.dictionaries(st.sampled_from(["noul", "choice", "score"]), st.floats(0.1, 10))
    return BY_KIND.get(option.kind, st.dictionaries(WORDS, WORDS))


@given(changed_settings())
def test_every_setting_survives_every_way_in(values: dict[str, Any]) -> None:
    expected = Settings(**values)

    with toml_file(values) as file:
        from_file = resolve(file=file)
    from_environment = resolve(
        environ={f"HEADRACE_{name.upper()}": as_text(v) for name, v in values.items()}
    )
    from_arguments = resolve(arguments={name: as_text(v) for name, v in values.items()})

    for resolution in (from_file, from_environment, from_arguments):
        assert resolution.settings == expected
        changed = {name for name, origin in resolution.origins.items() if origin != "default"}
        assert changed == set(values)


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@contextmanager
def toml_file(values: dict[str, Any]) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "headrace.toml"
        lines = (f"{name} = {as_toml(value)}\n" for name, value in values.items())
        file.write_text("".join(lines), encoding="utf-8")
        yield file


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_toml(k)} = {as_toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


# ---- what is wrong stops the start ----------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("HEADRACE_PORT", "eighty", "port: expected JSON, a whole number"),
        ("HEADRACE_PORT", "80.5", "port: expected `int`"),
        ("HEADRACE_PORT", "", "port: expected JSON, a whole number"),
        ("HEADRACE_LOG_JSON", "yes", "log_json: expected JSON, true or false"),
        ("HEADRACE_LOG_JSON", "1", "log_json: expected `bool`"),
        ("HEADRACE_ALIASES", "a,b", "aliases: expected JSON, a list"),
        ("HEADRACE_MODEL_NAMES", "a=b", "model_names: expected JSON, an object"),
        ("HEADRACE_THINKING", "maybe", "thinking: expected one of model, on, off"),
        ("HEADRACE_HOST", "", "host: expected `str` of length >= 1"),
    ],
)
def test_a_bad_value_names_its_setting_and_its_place(
    variable: str, text: str, message: str
) -> None:
    with pytest.raises(SettingError) as caught:
        resolve(environ={variable: text})
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith(f"(environment {variable})")


@pytest.mark.parametrize(
    "sources",
    [
        {"environ": {"HEADRACE_QUEUE_LIMITS": "1"}},
        {"arguments": {"queue_limits": 1}},
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest_name(sources: dict[str, Any]) -> None:
    with pytest.raises(
        SettingError, match=r"^unknown setting queue_limits .*did you mean queue_limit\?"
    ):
        resolve(**sources)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"unheard = 1", "unknown setting unheard"),
        (b'port = "80"', "port: expected `int`, got `str`"),
        (b"keepalive_s = nan", "keepalive_s: expected"),
        (b"keepalive_s = inf", "keepalive_s: expected"),
        (b"port = ", "is not TOML"),
        (b"\xff", "is not TOML"),
    ],
)
def test_a_bad_config_file_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_bytes(content)

    with pytest.raises(SettingError) as caught:
        resolve(file=file)

    assert message in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_config_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="No such file"):
        resolve(file=tmp_path / "absent.toml")


# ---- what is shown --------------------------------------------------------------------------


def test_a_report_shows_each_value_with_its_origin_and_hides_keys() -> None:
    resolution = resolve(environ={"HEADRACE_API_KEYS": '["sesame"]', "HEADRACE_HOME": "models"})

    report = {entry.name: entry for entry in resolution.report()}

    assert list(report) == [field.name for field in attrs.fields(Settings)]
    assert report["home"].value == "models"
    assert report["home"].origin == "environment HEADRACE_HOME"
    assert report["port"].value == 8080
    assert report["api_keys"].value == "(hidden)"
    assert "sesame" not in repr(resolution) + repr(report)


def test_a_report_tells_that_there_are_no_keys() -> None:
    report = {entry.name: entry.value for entry in resolve().report()}
    assert report["api_keys"] == ()


def test_every_setting_is_an_option_of_the_command_line() -> None:
    offered = {option.name: option for option in options()}

    assert list(offered) == [field.name for field in attrs.fields(Settings)]
    assert {option.kind for option in offered.values()} == {
        bool, int, float, str, Path, tuple, dict
    }  # fmt: skip
    assert offered["queue_limit"].flag == "--queue-limit"
    assert offered["thinking"].choices == ("model", "on", "off")
    assert offered["memory_budget_bytes"].kind is int
    assert offered["api_keys"].secret
    for option in offered.values():
        assert option.help
        assert plain(option.default) == plain(getattr(Settings(), option.name))
