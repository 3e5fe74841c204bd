"""A folder that several want is made by one, whole, while the others wait."""

from __future__ import annotations

import io
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

from headrace.actors.library import command, shown_progress
from headrace.actors.library.command import CommandFailed, run_command
from headrace.actors.library.once import make_once


def nobody_waits() -> None:
    raise AssertionError("there was something to wait for")


def test_of_two_at_once_one_builds_and_the_other_waits_for_it(tmp_path: Path) -> None:
    target, record = tmp_path / "made", []
    waiting = threading.Event()

    def build(folder: Path) -> None:
        # The second one is at the lock before this one goes on.
        second.start()
        assert waiting.wait(120)
        assert not target.exists()
        (folder / "content").write_text("whole")
        record.append("built")

    def late() -> None:
        make_once(target, target.exists, build, waiting.set)
        record.append((target / "content").read_text())

    second = threading.Thread(target=late)
    make_once(target, target.exists, build, nobody_waits)
    second.join()
    assert record == ["built", "whole"]


def test_a_build_that_fails_leaves_the_old_folder_and_frees_the_lock(tmp_path: Path) -> None:
    target = tmp_path / "made"
    target.mkdir()
    (target / "old").touch()

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("no space left")

    def succeed(folder: Path) -> None:
        (folder / "new").touch()

    with pytest.raises(OSError, match="no space"):
        make_once(target, lambda: False, fail, nobody_waits)
    assert [path.name for path in target.iterdir()] == ["old"]
    make_once(target, (target / "new").exists, succeed, nobody_waits)
    assert [path.name for path in target.iterdir()] == ["new"]
    assert {path.name for path in tmp_path.iterdir()} == {"made", ".made.lock"}


def test_what_is_done_is_not_locked(tmp_path: Path) -> None:
    make_once(tmp_path / "made", lambda: True, lambda _: nobody_waits(), nobody_waits)
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_fails_is_quoted(tmp_path: Path) -> None:
    code = "import sys; print('one'); print('\\ntwo', file=sys.stderr); sys.exit(3)"
    with pytest.raises(CommandFailed, match="two"):
        run_command([sys.executable, "-c", code], tmp_path / "log")
    with pytest.raises(CommandFailed, match="exit status 3"):
        run_command([sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log")
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(CommandFailed, match="ended by signal 9"):
        run_command([sys.executable, "-c", code], tmp_path / "log")


def test_a_program_ends_with_the_call_that_runs_it_even_if_it_ignores_being_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_END_SECONDS", 0.1)
    ready = tmp_path / "ready"
    code = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
    )

    def watch() -> None:
        if ready.exists():
            raise KeyboardInterrupt

    # That no process is left behind is checked after every test.
    with pytest.raises(KeyboardInterrupt):
        run_command([sys.executable, "-c", code, str(ready)], tmp_path / "log", watch)


def test_without_a_terminal_progress_is_a_line_per_quarter() -> None:
    lines: list[str] = []
    with shown_progress(Console(file=io.StringIO()), lines.append) as report:
        report("fetching", None)
        for percent in range(101):
            report("fetching", percent / 100)
        report("waiting", None)
    assert lines == [
        "fetching",
        "fetching: 25%",
        "fetching: 50%",
        "fetching: 75%",
        "fetching: 100%",
        "waiting",
    ]


def test_on_a_terminal_progress_is_a_bar_per_piece_of_work() -> None:
    drawn = io.StringIO()
    lines: list[str] = []
    with shown_progress(Console(file=drawn, force_terminal=True), lines.append) as report:
        report("fetching", 0.4)
        report("converting", 0.5)
    assert "converting" in drawn.getvalue()
    # The piece before is through when the next begins.
    last = drawn.getvalue().rsplit("fetching", 1)[1]
    assert "100%" in last.split("converting")[0]
    assert "50%" in last
    assert lines == []
