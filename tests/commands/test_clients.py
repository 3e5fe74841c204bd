"""The commands that ask a server, against a scripted one in another process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import Result

from headrace.http.cli import COMMANDS, main
from headrace.http.commands.ps import text, view_of
from headrace.http.run_file import announced
from headrace.runtime.testing.scripted_process import scripted_serving
from headrace.runtime.testing.serving import Serving

Shell = Callable[..., Result]


def model_folder(folder: Path) -> Path:
    """The least that counts as a model."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "model.safetensors").write_bytes(b"x" * 2000)
    return folder


# ---- every command ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_the_help_of_a_command_has_an_example(shell: Shell, name: str) -> None:
    result = shell(name, "--help")
    assert result.exit_code == 0
    assert f"headrace {name}" in result.output.partition("Examples:")[2]


def test_the_exit_codes_are_told(shell: Shell) -> None:
    output = shell("--help").output
    for name in (command.name for command in COMMANDS):
        assert f"\n  {name} " in output
    assert "3  no server answers" in output


@pytest.mark.parametrize(
    "command", [["ps"], ["chat"], ["bench"], ["stop"]], ids=lambda command: command[0]
)
def test_without_a_server_the_exit_code_is_3(
    shell: Shell, nobody: Path, command: list[str]
) -> None:
    result = shell(*command, "--home", nobody, stdin="Hi")
    assert result.exit_code == 3
    assert "no server" in result.output
    assert "Traceback" not in result.output


def test_an_address_that_is_none_is_a_wrong_command_line(shell: Shell) -> None:
    result = shell("ps", "--url", "localhost:8080")
    assert result.exit_code == 2
    assert "http://" in result.output


def test_two_servers_are_told_apart_by_their_addresses(
    shell: Shell, server: Serving, home: Path
) -> None:
    with announced(home, ("http://127.0.0.1:1",)):
        for command in ("ps", "stop"):
            result = shell(command, "--home", home)
            assert result.exit_code == 2
            assert f"http://127.0.0.1:1, {server.base_url}" in result.output.replace("\n", " ") or (
                f"{server.base_url}, http://127.0.0.1:1" in result.output.replace("\n", " ")
            )
        assert shell("ps", "--home", home, "--url", server.base_url + "/v1/").exit_code == 0


def test_a_key_is_taken_from_the_environment(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted_serving(tmp_path, "open-sesame"):
        for command in ("ps", "chat", "bench"):
            refused = shell(command, "--home", tmp_path, stdin="greet")
            assert refused.exit_code == 1
            assert "HEADRACE_API_KEY" in refused.output
        monkeypatch.setenv("HEADRACE_API_KEY", "open-sesame")
        assert shell("ps", "--home", tmp_path, "--interval", "0.1").exit_code == 0
        assert shell("chat", "--home", tmp_path, stdin="greet").output == "Good day.\n"


# ---- ls, pull, rm ----------------------------------------------------------------------------


def test_ls_tells_what_is_there_and_what_a_server_has(
    shell: Shell, server: Serving, home: Path
) -> None:
    model_folder(home / "models" / "scripted")
    model_folder(home / "models" / "other-12345678")
    rows = {row["id"]: row for row in json.loads(shell("ls", "--json", "--home", home).output)}
    assert rows["scripted"]["resident"] is True
    assert rows["scripted"]["state"] == "ready"
    assert (rows["other-12345678"]["resident"], rows["other-12345678"]["state"]) == (False, None)
    assert rows["scripted"]["size_bytes"] == 2000
    lines = shell("ls", "--home", home).output.splitlines()
    assert lines[0].split() == ["MODEL", "SIZE", "FROM", "STATE"]
    assert ["scripted", "2", "kB", "gguf", "ready"] in [line.split() for line in lines]


def test_ls_without_a_server_knows_no_states(shell: Shell, nobody: Path) -> None:
    model_folder(nobody / "models" / "mine")
    result = shell("ls", "--json", "--home", nobody)
    assert result.exit_code == 0
    assert [row["resident"] for row in json.loads(result.output)] == [None]


def test_pull_checks_a_folder_and_leaves_it_where_it_is(shell: Shell, nobody: Path) -> None:
    folder = model_folder(nobody / "elsewhere" / "mine")
    result = shell("pull", folder, "--home", nobody)
    assert result.exit_code == 0
    assert result.stdout.split() == ["mine", "2", "kB", str(folder)]


@pytest.mark.parametrize("source", ["no-such-model", "owner/name"])
def test_what_cannot_be_pulled_is_told_in_a_line(shell: Shell, nobody: Path, source: str) -> None:
    result = shell("pull", source, "--home", nobody)
    assert result.exit_code == 1
    assert source in result.stderr
    assert "Traceback" not in result.output


def test_rm_deletes_what_the_home_holds(shell: Shell, nobody: Path) -> None:
    folder = model_folder(nobody / "models" / "mine")
    result = shell("rm", "mine", "--home", nobody, stdin="y\n")
    assert result.exit_code == 0, result.output
    assert "2 kB are free" in result.stdout
    assert not folder.exists()
    assert json.loads(shell("ls", "--json", "--home", nobody).output) == []
    assert [file.name for file in folder.parent.iterdir()] in ([], [".mine.lock"])


def test_rm_asks_and_takes_no_for_an_answer(shell: Shell, nobody: Path) -> None:
    folder = model_folder(nobody / "models" / "mine")
    for answer in ("n\n", "", "\n"):
        assert shell("rm", "mine", "--home", nobody, stdin=answer).exit_code == 1
    assert folder.exists()


def test_rm_deletes_nothing_outside_the_home(shell: Shell, nobody: Path, tmp_path: Path) -> None:
    own = model_folder(tmp_path / "own")
    linked = nobody / "models" / "linked"
    linked.parent.mkdir()
    linked.symlink_to(own)
    cached = tmp_path / "hub" / "models--owner--name"
    model_folder(cached / "snapshots" / "abc")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc")
    for model in (str(own), str(linked), "owner/name", "../models/linked", "own"):
        result = shell("rm", "--yes", model, "--home", nobody)
        assert result.exit_code == 1, model
        assert "is not" in result.stderr
    assert (own / "config.json").exists()
    assert (cached / "snapshots" / "abc" / "config.json").exists()


def test_rm_refuses_what_a_server_has_in_memory(
    shell: Shell, server: Serving, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home / "models" / "scripted"
    if not folder.exists():
        model_folder(folder)
    result = shell("rm", "--yes", "scripted", "--home", home)
    assert result.exit_code == 1
    assert "in the memory of the server" in result.stderr
    assert folder.exists()


# ---- ps --------------------------------------------------------------------------------------


def test_ps_tells_what_a_server_holds(shell: Shell, server: Serving, home: Path) -> None:
    view = json.loads(shell("ps", "--json", "--interval", "0.1", "--home", home).output)
    assert view["url"] == server.base_url
    assert (view["queue_depth"], view["rows_running"], view["draining"]) == (0, 0, False)
    (model,) = view["models"]
    assert (model["id"], model["state"], model["running_rows"]) == ("scripted", "ready", 0)
    output = shell("ps", "--interval", "0.1", "--home", home).output
    assert "scripted" in output
    assert "0 tokens/s decoded" in output


def test_a_view_counts_tokens_between_two_looks() -> None:
    def stats(prompt: int, decoded: int) -> dict[str, object]:
        return {
            "tokens": {"prompt": prompt, "decoded": decoded},
            "server": {"version": "1", "started_at": "x", "draining": True},
            "requests": {"queue_depth": 2, "rows_running": 1, "in_flight": 3},
            "models": {"resident_bytes": 5, "budget_bytes": 9, "current": "m", "resident": []},
            "batch": {},
        }

    request = {
        "id": "req_1", "model": "m\x1b[2J", "state": "decoding", "age_ms": 1500,
        "prompt_tokens": 7, "generated_tokens": 3,
    }  # fmt: skip
    view = view_of("http://x", stats(10, 100), stats(20, 150), [request], 2.0)
    assert (view["tokens_per_second"], view["prompt_tokens_per_second"]) == (25.0, 5.0)
    shown = text(view)
    assert "25 tokens/s decoded, 5 prompt tokens/s, 1 rows, 2 queued" in shown
    assert "draining" in shown
    assert "\x1b" not in shown
    assert "req_1" in shown


# ---- chat in a pipe, bench, completion -------------------------------------------------------


def test_chat_answers_what_a_pipe_asks(shell: Shell, server: Serving, home: Path) -> None:
    result = shell("chat", "--home", home, stdin="Please greet me.\n")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Good day.\n", "")


def test_chat_in_a_pipe_hands_on_what_was_said_as_it_is(
    shell: Shell, server: Serving, home: Path
) -> None:
    assert shell("chat", "--home", home, stdin="colour").stdout == "\x1b[31mRed.\n"


def test_chat_tells_what_the_server_refuses(shell: Shell, server: Serving, home: Path) -> None:
    result = shell("chat", "--home", home, "--model", "unheard", stdin="Hi")
    assert result.exit_code == 1
    assert "unheard" in result.stderr
    assert result.stdout == ""


def test_chat_sends_fields_of_its_user(shell: Shell, server: Serving, home: Path) -> None:
    limited = ("--field", "max_tokens=3", "--field", 'stop=["x"]')
    assert shell("chat", "--home", home, *limited, stdin="greet").stdout == "Goo\n"
    refused = shell("chat", "--home", home, "--field", 'seed="no"', stdin="greet")
    assert (refused.exit_code, "seed" in refused.stderr) == (1, True)


@pytest.mark.parametrize("field", ["seed", "=1", "seed=", "seed=x y"])
def test_a_field_has_a_name_and_a_value(shell: Shell, field: str) -> None:
    assert shell("chat", "--field", field).exit_code == 2


def test_chat_in_a_pipe_needs_a_question(shell: Shell, server: Serving, home: Path) -> None:
    assert shell("chat", "--home", home, stdin=" \n").exit_code == 2


def test_bench_measures_each_number_of_requests_at_a_time(
    shell: Shell, server: Serving, home: Path
) -> None:
    small = ("--requests", 4, "--max-tokens", 5, "--prompt-tokens", 8, "--home", home)
    result = shell("bench", "--json", "--concurrency", "1,2", *small)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [(row["concurrency"], row["requests"], row["errors"]) for row in rows] == [
        (1, 4, 0),
        (2, 4, 0),
    ]
    for row in rows:
        assert row["tokens"] == 20
        assert 0 < row["ttft_p50_s"] <= row["ttft_p99_s"]
    table = shell("bench", *small).stdout.splitlines()
    assert table[0].startswith("AT A TIME  REQUESTS  ERRORS  TTFT P50")
    assert table[1].split()[:3] == ["4", "4", "0"]


def test_bench_counts_what_was_refused(shell: Shell, server: Serving, home: Path) -> None:
    result = shell(
        "bench", "--model", "unheard", "--requests", 3, "--warm-up", 0, "--json", "--home", home
    )
    assert result.exit_code == 1
    (row,) = json.loads(result.stdout)
    assert (row["errors"], row["error_kinds"]) == (3, {"status 404": 3})
    assert row["ttft_p50_s"] is None


@pytest.mark.parametrize("numbers", ["0", "1,", "x", "-1", "1,,2"])
def test_bench_takes_numbers_only(shell: Shell, numbers: str) -> None:
    assert shell("bench", "--concurrency", numbers).exit_code == 2


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(shell: Shell, name: str) -> None:
    result = shell("completion", name)
    assert result.exit_code == 0
    assert "_HEADRACE_COMPLETE" in result.output


@pytest.mark.parametrize("line", [["rm"], ["serve"], ["fit"], ["chat", "--model"]], ids=str)
def test_a_shell_is_offered_the_models_that_are_here(
    line: list[str], nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_folder(nobody / "models" / "mine")
    model_folder(nobody / "models" / "other")
    monkeypatch.setenv("HEADRACE_HOME", str(nobody))
    shell = BashComplete(main, {}, "headrace", "_HEADRACE_COMPLETE")
    assert [item.value for item in shell.get_completions(line, "m")] == ["mine"]
    monkeypatch.setenv("HEADRACE_UNHEARD", "1")
    assert shell.get_completions(line, "m") == []


# ---- stop ------------------------------------------------------------------------------------


def test_stop_finds_no_other_server(shell: Shell, server: Serving, home: Path) -> None:
    assert shell("stop", "--home", home, "--url", "http://127.0.0.1:9").exit_code == 3
    assert server.process.poll() is None
