"""The file of keys, and the files of TLS: what is read, and how a wrong one stops the start."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headrace.http.edge import policy_of
from headrace.http.keys import keys_of
from headrace.http.opening import settings_of_environment
from headrace.http.tls import tls_context
from headrace.runtime.errors import SettingError
from headrace.runtime.settings import Settings


def keys_file(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    file = folder / "keys"
    file.write_bytes(content)
    file.chmod(mode)
    return file


def test_keys_come_one_a_line_beside_those_of_the_setting(tmp_path: Path) -> None:
    file = keys_file(tmp_path, b"# of the team\n\n  two \nthr#ee\r\none\n")
    settings = Settings(api_keys=("one",), api_keys_file=file)
    assert keys_of(settings) == ("one", "two", "thr#ee")
    assert policy_of(settings).api_keys == ("one", "two", "thr#ee")


def test_without_a_file_there_are_those_of_the_setting() -> None:
    assert keys_of(Settings()) == ()
    assert keys_of(Settings(api_keys=("one",))) == ("one",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no key"),
        (b"# none yet\n", "has no key"),
        (b"one\nme secret\n", "line 2: expected one key"),
        (b"\xff\xfe", "UTF-8"),
    ],
)
def test_a_file_that_lets_nobody_in_or_anybody_stops_the_start(
    content: bytes, said: str, tmp_path: Path
) -> None:
    settings = Settings(api_keys_file=keys_file(tmp_path, content))
    with pytest.raises(SettingError, match=said) as caught:
        policy_of(settings)
    assert str(caught.value).startswith("api_keys_file: ")
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"^api_keys_file: .*missing: No such file"):
        keys_of(Settings(api_keys_file=tmp_path / "missing"))


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_file_that_others_may_read_is_warned_of(
    mode: int, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = keys_file(tmp_path, b"one\n", mode)
    with caplog.at_level(logging.WARNING):
        policy_of(Settings(api_keys_file=file))
    assert [record.getMessage() for record in caplog.records] == (
        [f"others may read the keys in {file}; `chmod 600` lets only you"] if warned else []
    )


# ---- the files of TLS -----------------------------------------------------------------------


def test_without_a_certificate_there_is_no_tls() -> None:
    assert tls_context(Settings()) is None


def test_a_certificate_needs_its_key_and_a_key_its_certificate(tmp_path: Path) -> None:
    file = tmp_path / "x.pem"
    with pytest.raises(SettingError, match=r"^tls_key: "):
        tls_context(Settings(tls_certificate=file))
    with pytest.raises(SettingError, match=r"^tls_certificate: "):
        tls_context(Settings(tls_key=file))


def test_what_is_no_certificate_is_told_by_its_setting(tmp_path: Path) -> None:
    file = tmp_path / "x.pem"
    file.write_text("not a certificate")
    with pytest.raises(SettingError, match=r"^tls_certificate: .* cannot be used: "):
        tls_context(Settings(tls_certificate=file, tls_key=file))
    with pytest.raises(SettingError, match=r"^tls_key: .*missing: No such file"):
        tls_context(Settings(tls_certificate=file, tls_key=tmp_path / "missing"))


def test_a_certificate_that_another_server_would_pass_over_stops_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert settings_of_environment() == Settings(home=settings_of_environment().home)
    monkeypatch.setenv("HEADRACE_TLS_CERTIFICATE", "x.pem")
    with pytest.raises(SettingError, match=r"^tls_certificate: "):
        settings_of_environment()
