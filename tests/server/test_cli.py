"""The command line: what it accepts, what it says, and how it fails."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from headrace.actors import provision
from headrace.actors.provision import Provision
from headrace.http.cli import main
from headrace.http.options import given, setting_options
from headrace.runtime.config import options
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.settings import Settings


def run(*arguments: str) -> Result:
    # `serve` takes SIGTERM over and exempts what there is from collections, which is right in a
    # process of its own.
    before = signal.getsignal(signal.SIGTERM)
    try:
        return CliRunner().invoke(main, list(arguments))
    finally:
        signal.signal(signal.SIGTERM, before)
        gc.unfreeze()


def read(*arguments: str) -> dict[str, Any]:
    """The settings that stood on a command line."""
    seen: dict[str, Any] = {}

    @click.command()
    @setting_options
    def command(config_file: Path | None, **arguments: Any) -> None:
        seen.update(given(arguments))

    result = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return seen


def test_every_setting_has_its_option_and_is_explained() -> None:
    text = run("serve", "--help").output
    for option in options():
        assert option.flag in text


def test_what_is_not_given_is_not_set() -> None:
    assert read() == {}


def test_options_of_each_kind() -> None:
    seen = read(
        *("--queue-limit", "3"),
        *("--keepalive-s", "0.5"),
        *("--log-level", "debug"),
        "--debug-trace",
        "--no-in-process",
        *("--allowed-origins", "https://a.example", "--allowed-origins", "https://b.example"),
        *("--aliases", '["x",""]'),
        *("--model-names", '{"a":"b"}'),
    )
    assert seen == {
        "queue_limit": 3,
        "keepalive_s": 0.5,
        "log_level": "debug",
        "debug_trace": True,
        "in_process": False,
        "allowed_origins": ("https://a.example", "https://b.example"),
        "aliases": '["x",""]',
        "model_names": '{"a":"b"}',
    }


def test_a_secret_is_not_in_the_help() -> None:
    os.environ["HEADRACE_API_KEYS"] = '["hidden"]'
    try:
        assert "hidden" not in run("serve", "--help").output
    finally:
        del os.environ["HEADRACE_API_KEYS"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--queue-limit", "-1"], "queue_limit"),
        (["--port", "99999"], "port"),
        (["--port", "http"], "--port"),
        (["--log-level", "loud"], "--log-level"),
        (["--model-names", "{"], "model_names"),
        (["--no-such-thing"], "--no-such-thing"),
    ],
)
def test_a_bad_setting_stops_the_start_and_is_named(arguments: list[str], said: str) -> None:
    result = run("serve", *arguments)
    assert result.exit_code == 2
    assert said in result.output


def test_an_unknown_model_is_told_in_one_line(tmp_path: Path) -> None:
    result = run("serve", "no-such-model", "--home", str(tmp_path), "--port", "0")
    assert result.exit_code == 1
    assert "no-such-model" in result.output
    assert "Traceback" not in result.output


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version").output.startswith("headrace, version ")


def test_help_needs_no_model_library() -> None:
    code = (
        "import sys; from headrace.http.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'mlx', 'mlx_lm', 'quart', 'hypercorn', 'transformers', 'trio', 'httpx', 'rich',\n"
        "    'ssl', 'asyncio', 'huggingface_hub', 'structlog'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_doctor_speaks_json() -> None:
    result = run("doctor", "--json")
    topics = {finding["topic"] for finding in json.loads(result.output)}
    assert {"system", "device", "memory"} <= topics


def test_the_doctor_speaks_to_people() -> None:
    result = run("doctor")
    assert "device: " in result.output
    assert result.exit_code in (0, 1)


def test_the_options_fit_the_settings() -> None:
    assert read("--port", "0")["port"] == Settings(port=0).port


def free_port() -> int:
    """One below those that systems give to whoever asks for any, so that nobody takes it soon."""
    for port in range(20_000 + os.getpid() % 5_000, 30_000):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("all of them are taken")


def test_a_port_that_is_taken_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = run("serve", "--port", port)
    assert result.exit_code == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in result.output
    assert "Traceback" not in result.output


def test_a_certificate_that_is_missing_gives_the_port_back(tmp_path: Path) -> None:
    port = free_port()
    missing = ("--tls-certificate", str(tmp_path / "none"), "--tls-key", str(tmp_path / "none"))
    result = run("serve", "--port", str(port), "--home", str(tmp_path), *missing)
    assert result.exit_code == 2
    assert "tls_certificate" in result.output
    socket.create_server(("127.0.0.1", port)).close()


def test_nobody_can_connect_while_a_model_is_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused: list[int] = []

    def fetch(settings: Settings, *_: Any) -> Provision:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((settings.host, settings.port))
        refused.append(settings.port)
        raise RequestError(Code.LOAD_FAILED, "it cannot be fetched")

    monkeypatch.setattr(provision, "provide", fetch)
    port = free_port()
    result = run("serve", "owner/not-here", "--port", str(port), "--home", str(tmp_path))
    assert (result.exit_code, refused) == (1, [port])
    assert "it cannot be fetched" in result.output
