"""`headrace chat` at a terminal, against a scripted server that never stops talking by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from headrace.runtime.testing.scripted_process import scripted_serving
from headrace.runtime.testing.serving import Serving
from headrace.runtime.testing.terminal import CTRL_C, CTRL_D, Terminal, terminal


@pytest.fixture
def chat(server: Serving, home: Path) -> Iterator[Terminal]:
    with terminal("chat", "--home", str(home)) as at:
        at.until("Ctrl-D leaves.")
        at.until("> ")
        yield at


def alone(server: Serving) -> bool:
    return server.metric("headrace_rows_running") == 0


def test_ctrl_c_cancels_the_answer_and_the_row_and_not_the_program(
    chat: Terminal, server: Serving
) -> None:
    before = server.metric("headrace_cancelled_total", reason="disconnect")
    chat.type("Talk for ever\n")
    chat.until("ABC")
    assert not alone(server)
    chat.type(CTRL_C)
    chat.until("(cancelled)")
    server.until(lambda: alone(server))
    assert server.metric("headrace_cancelled_total", reason="disconnect") == before + 1
    chat.until("> ")
    chat.type("Please greet me\n")
    chat.until("Good day.")
    chat.until("> ")
    chat.type(CTRL_D)
    assert chat.end() == 0


def test_ctrl_c_at_the_prompt_leaves_the_line_and_not_the_program(chat: Terminal) -> None:
    chat.type("not sent")
    chat.until("not sent")
    chat.press(CTRL_C, "> ")
    chat.type("/model\n")
    chat.until("the current model of the server answers.")
    chat.type("/quit\n")
    assert chat.end() == 0


def test_what_a_model_says_does_not_colour_the_terminal(chat: Terminal) -> None:
    chat.type("a colour\n")
    assert not chat.until("[31mRed.").endswith("\x1b")
    chat.until("> ")
    chat.type(CTRL_D)
    assert chat.end() == 0


def test_an_unknown_model_is_told_and_the_chat_goes_on(chat: Terminal) -> None:
    chat.type("/model unheard\nHi\n")
    chat.until("unheard answers from now on.")
    chat.until("does not exist")
    chat.type("/model scripted\ngreet\n")
    chat.until("Good day.")
    chat.until("> ")
    chat.type(CTRL_D)
    assert chat.end() == 0


def test_ps_watches_until_ctrl_c(server: Serving, home: Path) -> None:
    with terminal("ps", "--watch", "--interval", "0.1", "--home", str(home)) as at:
        at.until("tokens/s decoded")
        at.until("tokens/s decoded")
        at.type(CTRL_C)
        assert at.end() == 0


def test_stop_gives_a_bounded_wait_and_then_ends_them_at_once(
    shell: Callable[..., Result], tmp_path: Path
) -> None:
    with (
        scripted_serving(tmp_path) as serving,
        terminal("chat", "--home", str(tmp_path)) as talking,
    ):
        talking.until("> ")
        talking.type("Talk for ever\n")
        talking.until("ABC")
        with terminal("stop", "--wait", "0.2", "--home", str(tmp_path)) as at:
            at.until("still finishes its requests")
            assert at.end() == 1
        assert serving.process.poll() is None
        with terminal("stop", "--now", "--home", str(tmp_path)) as at:
            at.until("has ended")
            assert at.end() == 0
        assert serving.process.wait(timeout=60) == 0
        assert shell("stop", "--home", tmp_path).exit_code == 3
        talking.until("The server is closing.")
        talking.until("> ")
