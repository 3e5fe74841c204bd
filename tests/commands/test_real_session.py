"""A whole session over `headrace serve` and the default model, each command as people run it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest
from click.testing import Result

from headrace.actors.library import DEFAULT_MODEL
from headrace.runtime.testing.serving import Serving, serving
from headrace.runtime.testing.terminal import CTRL_C, CTRL_D, terminal

Shell = Callable[..., Result]
LOAD_SECONDS = 120.0
SHORT = ("--prompt-tokens", 8, "--max-tokens", 4)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def answers(shell: Shell, *arguments: object, stdin: str | None = None) -> str:
    result = shell(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def cancelled_in_the_middle_of_an_answer(real: Serving) -> None:
    before = real.metric("headrace_cancelled_total", reason="disconnect")
    # It would talk for a minute.
    endless = ("--field", "ignore_eos=true", "--max-tokens", "4000")
    with terminal("chat", *endless, "--url", real.base_url) as at:
        at.until("> ")
        at.type("Tell me a story.\n")
        real.until(lambda: real.metric("headrace_rows_running") == 1, within=60)
        at.type(CTRL_C)
        at.until("(cancelled)", within=60)
        real.until(lambda: real.metric("headrace_rows_running") == 0, within=60)
        assert real.metric("headrace_cancelled_total", reason="disconnect") == before + 1
        at.until("> ")
        at.type(CTRL_D)
        assert at.end() == 0


@pytest.mark.timeout(600)
def test_a_session_from_pull_to_stop(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as real:
        monkeypatch.setenv("HEADRACE_URL", real.base_url)
        # What the server brought is there, and its folder is a model by itself.
        name, *_, folder = answers(shell, "pull").split()
        assert name == DEFAULT_MODEL
        assert answers(shell, "pull", folder).split() == [name, *_, folder]
        real.until(lambda: real.get_json("/health")["state"] == "ready", within=LOAD_SECONDS)

        cancelled_in_the_middle_of_an_answer(real)
        said = answers(shell, "chat", "--max-tokens", 5, "--temperature", 0, stdin="Name a colour.")
        assert said.strip()

        (row,) = [
            row for row in json.loads(answers(shell, "ls", "--json")) if row["id"] == DEFAULT_MODEL
        ]
        assert (row["resident"], row["state"], row["path"]) == (True, "ready", folder)
        view = json.loads(answers(shell, "ps", "--json", "--interval", "0.1"))
        assert [model["id"] for model in view["models"]] == [DEFAULT_MODEL]
        (load,) = json.loads(
            answers(shell, "bench", "--json", "-n", 2, "-c", 2, *SHORT, "--warm-up", 0)
        )
        assert (load["errors"], load["tokens"]) == (0, 8)

        (worker,) = [worker["pid"] for worker in real.get_json("/engine")["workers"]]
        assert "has ended" in answers(shell, "stop")
        assert real.process.wait(timeout=60) == 0
        assert not exists(worker)
        assert shell("ps").exit_code == 3
