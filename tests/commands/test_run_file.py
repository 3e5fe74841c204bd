"""A server is found while it lives, and not a moment longer."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.http.run_file import Running, announced, running, this_machine, wait_end, watched

HOLDER = """
import pathlib, sys
from headrace.http.run_file import announced
with announced(pathlib.Path(sys.argv[1]), ("http://127.0.0.1:8080",)):
    print("here", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that says it serves, until its input ends."""
    command = [sys.executable, "-c", HOLDER, str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        yield process
        process.kill()


def test_a_server_is_found_while_it_lives(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        (found,) = running(tmp_path)
        assert found.pid == process.pid
        assert found.addresses == ("http://127.0.0.1:8080",)
        process.communicate()
    assert running(tmp_path) == ()
    assert list((tmp_path / "run").iterdir()) == []


def test_one_that_was_killed_is_not_found_and_its_file_is_removed(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(list((tmp_path / "run").glob("*.json"))) == 1
        assert running(tmp_path) == ()
    assert list((tmp_path / "run").iterdir()) == []


def test_the_end_is_seen_even_when_the_file_has_gone_before(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        (found,) = running(tmp_path)
        with watched(tmp_path, found) as opened:
            assert opened is not None
            assert not wait_end(opened, 0)
            process.communicate()
            assert wait_end(opened, 60)
        with watched(tmp_path, found) as opened:
            assert opened is None


def test_a_number_that_another_program_has_by_now_is_no_server(tmp_path: Path) -> None:
    left = Running(os.getpid(), ("http://127.0.0.1:8080",), 0.0, this_machine())
    file = tmp_path / "run" / f"{left.pid}-8080.json"
    file.parent.mkdir()
    file.write_text(
        json.dumps(
            {"pid": left.pid, "addresses": left.addresses, "started_at": 0.0, "machine": "x"}
        )
    )
    assert running(tmp_path) == ()
    assert not file.exists()


def test_a_server_in_another_container_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holder(tmp_path):
        monkeypatch.setattr("headrace.http.run_file.this_machine", lambda: "another")
        assert running(tmp_path) == ()
        assert len(list((tmp_path / "run").glob("*.json"))) == 1


def test_where_no_file_can_be_written_a_server_serves_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "run").write_text("in the way")
    with caplog.at_level(logging.WARNING), announced(tmp_path, ("http://127.0.0.1:1",)):
        pass
    assert "commands will not find this server" in caplog.text


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("http://0.0.0.0:80", "http://127.0.0.1:80"),
        ("http://[::]:80", "http://[::1]:80"),
        ("https://10.0.0.5:443", "https://10.0.0.5:443"),
    ],
)
def test_a_client_is_given_an_address_that_it_reaches(address: str, url: str) -> None:
    server = Running(1, (address,), 0.0, "x")
    assert server.url == url
    assert server.listens_at(url)
    assert server.listens_at(address)
