"""`headrace config`: every value, its place, and a file that says the same again."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import Result
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.http.commands.config import toml, toml_value
from headrace.runtime.config import options, resolve
from headrace.runtime.settings import Settings

Shell = Callable[..., Result]


@pytest.fixture(autouse=True)
def usual_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs these may have another, and it is a setting like all others."""
    monkeypatch.delenv("HEADRACE_HOME", raising=False)


def test_every_value_is_shown_with_its_place(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.toml"
    file.write_text("port = 1\nmax_n = 3\n")
    monkeypatch.setenv("HEADRACE_MAX_ROWS", "5")
    result = shell("config", "--json", "--config", file, "--port", "6")
    found = {row["name"]: (row["value"], row["origin"]) for row in json.loads(result.output)}
    assert list(found) == [option.name for option in options()]
    assert found["port"] == (6, "command line --port")
    assert found["max_rows"] == (5, "environment HEADRACE_MAX_ROWS")
    assert found["max_n"] == (3, f"file {file}")
    assert found["host"] == ("127.0.0.1", "default")


def test_people_get_a_line_for_each(shell: Shell) -> None:
    lines = shell("config", "--port", "6").output.splitlines()
    assert len(lines) == 1 + len(list(options()))
    assert ["port", "6", "command", "line", "--port"] in [line.split() for line in lines]
    assert ["model", "none", "default"] in [line.split() for line in lines]


def test_keys_are_in_none_of_the_forms(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_API_KEYS", '["much-hidden"]')
    for form in ([], ["--json"], ["--toml"]):
        result = shell("config", *form)
        assert result.exit_code == 0
        assert "much-hidden" not in result.output


def test_a_wrong_setting_is_named_with_its_place(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_MAX_ROWS", "many")
    result = shell("config")
    assert result.exit_code == 2
    assert "max_rows: expected JSON, a whole number (environment HEADRACE_MAX_ROWS)" in (
        result.output
    )


def test_a_file_to_start_from_changes_nothing(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(shell("config", "--toml").output)
    assert tomllib.loads(file.read_text()) == {}
    assert resolve(file=file).settings == Settings()


def test_a_line_of_it_counts_without_its_sign(shell: Shell, tmp_path: Path) -> None:
    """Each default may be uncommented as it stands, but for the places that are left open."""
    file = tmp_path / "x.toml"
    lines = [
        line.removeprefix("# ")
        for line in shell("config", "--toml").output.splitlines()
        if " = " in line and "..." not in line and "1000000" not in line
    ]
    file.write_text("\n".join(lines))
    kept = {line.partition(" = ")[0] for line in lines}
    assert {"port", "aliases", "keepalive_s", "decision_temperature"} <= kept
    again = attrs.asdict(resolve(file=file).settings)
    for name, value in attrs.asdict(Settings()).items():
        assert again[name] == value or value is None, name


def test_what_was_set_stands_in_the_file(tmp_path: Path) -> None:
    names = {"a b": 'say "x"\\', "é\x7f": "\n"}
    arguments: dict[str, Any] = {
        "port": 9, "model_names": names, "aliases": ("x", ""), "keepalive_s": 0.5,
        "home": Path("/some/where"), "log_json": True, "api_keys": ("secret",),
    }  # fmt: skip
    file = tmp_path / "x.toml"
    file.write_text(toml(resolve(arguments=arguments)), encoding="utf-8")
    without_keys = Settings(**arguments | {"api_keys": ()})
    assert resolve(file=file).settings == without_keys


PLAIN = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)


@settings(max_examples=40)
@given(PLAIN)
@example("\x7f\x00\u2028")
def test_toml_reads_each_value_as_it_was(value: Any) -> None:
    assert tomllib.loads(f"x = {toml_value(value)}")["x"] == value
