"""What commands are made of: text in columns, a conversation, figures, prompts."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.progress import Progress

from headrace.http.commands.asking import Answer, event_of, take
from headrace.http.commands.conversation import HELP, Conversation
from headrace.http.commands.figures import Sample, percentile, summary
from headrace.http.commands.load import Load
from headrace.http.commands.pull import Bars
from headrace.http.commands.shown import columns, duration, harmless, size

# ---- how things are shown -------------------------------------------------------------------


def test_columns_are_aligned_and_nothing_is_cut() -> None:
    long = "x" * 300
    assert columns([("A", "B"), (long, "1"), ("y", "")]).splitlines() == [
        f"A{' ' * 299}  B",
        f"{long}  1",
        "y",
    ]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "-"), (0, "0 B"), (999, "999 B"), (999.6, "1 kB"), (93_000_000, "93 MB"),
        (1_234_000_000, "1.23 GB"), (10**16, "1e+04 TB"),
    ],
)  # fmt: skip
def test_bytes_are_shown_to_three_digits(count: float | None, text: str) -> None:
    assert size(count) == text


def test_short_times_are_shown_in_milliseconds() -> None:
    assert [duration(s) for s in (None, 0.0123, 1.0, 75.5)] == ["-", "12 ms", "1.0 s", "75.5 s"]


def test_what_a_model_says_does_not_drive_the_terminal() -> None:
    assert harmless("a\x1b[2J\x07b\r\x9bc\td\n\u00e9") == "a[2Jbc\td\n\u00e9"


def test_a_fetch_is_a_bar_in_bytes_and_the_next_piece_of_work_another() -> None:
    progress = Progress(console=Console(file=io.StringIO()), auto_refresh=False)
    bars = Bars(progress)
    bars.report("fetching", None)
    fetching = progress.tasks[0]
    assert (fetching.total, fetching.fields["much"]) == (None, "")
    bars.report("fetching", 0.25)
    bars.amount(25_000_000, 100_000_000)
    assert (fetching.completed, fetching.fields["much"]) == (0.25, "25 MB of 100 MB")
    bars.report("converting", 0.5)
    _, converting = progress.tasks
    assert (fetching.completed, fetching.total) == (1.0, 1.0)
    assert (converting.completed, converting.fields["much"]) == (0.5, "50%")


# ---- a conversation -------------------------------------------------------------------------


def test_each_request_has_all_that_was_said() -> None:
    chat = Conversation(model="m", system="Be short.", fields={"max_tokens": 5})
    chat.keep("Hi", "Hello")
    assert chat.body("And?") == {
        "model": "m",
        "max_tokens": 5,
        "stream": True,
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "And?"},
        ],
    }


def test_a_question_without_an_answer_is_as_if_not_asked() -> None:
    chat = Conversation()
    chat.keep("Hi", "")
    assert chat.body("Hm") == {"messages": [{"role": "user", "content": "Hm"}], "stream": True}


def test_commands_change_it() -> None:
    chat = Conversation()
    chat.keep("Hi", "Hello")
    assert chat.obey("/model other")
    assert chat.obey("/system  Rhyme. ")
    assert (chat.model, chat.system, len(chat.turns)) == ("other", "Rhyme.", 2)
    assert "other" in (chat.obey("/model") or "")
    assert chat.obey("/system")
    assert chat.obey("/new")
    assert (chat.system, chat.turns) == (None, [])
    assert chat.obey("/unheard") == HELP
    assert chat.obey("/quit") is None


# ---- an answer ------------------------------------------------------------------------------


def test_thoughts_are_said_and_are_not_the_answer() -> None:
    answer, said = Answer(), list[tuple[str, bool]]()
    for line in (
        ": keep-alive",
        'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}',
        'data: {"choices": [{"delta": {"reasoning_content": "Hm"}}]}',
        "",
        'data: {"choices": [{"delta": {"content": "Yes"}}]}',
        'data: {"choices": [], "usage": {"completion_tokens": 2}}',
        "data: [DONE]",
    ):
        if event := event_of(line):
            take(event, answer, lambda piece, thought: said.append((piece, thought)))
    assert said == [("Hm", True), ("Yes", False)]
    assert (answer.text, answer.trouble) == ("Yes", None)


def test_an_error_in_the_stream_is_trouble_and_what_was_said_stays() -> None:
    answer = Answer(text="So far")
    event = event_of('data: {"error": {"message": "The server is closing.", "code": "closed"}}')
    assert event is not None
    take(event, answer, lambda piece, thought: None)
    assert answer.text == "So far"
    assert answer.trouble is not None
    assert answer.trouble.message == "The server is closing."


# ---- figures --------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0.01, 100))
def test_a_percentile_is_a_value_that_enough_do_not_exceed(
    values: list[float], percent: float
) -> None:
    found = percentile(values, percent)
    assert found in values
    below = sum(value <= found for value in values)
    assert below >= percent / 100 * len(values) - 1e-9
    smaller = [value for value in values if value < found]
    assert len(smaller) < percent / 100 * len(values) + 1e-9


def test_there_is_none_without_values() -> None:
    assert percentile([], 50) is None


def test_a_load_is_summed_up_from_what_ended_well() -> None:
    good, bad = Sample(began=10.0), Sample(began=10.0, error="status 429")
    for now in (10.5, 10.6, 10.8):
        good.heard(now)
    good.tokens = 3
    bad.heard(11.0)
    assert summary([good, bad], 2, 4.0) == {
        "concurrency": 2,
        "requests": 2,
        "errors": 1,
        "error_kinds": {"status 429": 1},
        "seconds": 4.0,
        "ttft_p50_s": 0.5,
        "ttft_p99_s": 0.5,
        "inter_token_p50_s": pytest.approx(0.1),
        "inter_token_p99_s": pytest.approx(0.2),
        "tokens": 3,
        "tokens_per_second": 0.75,
    }


def test_prompts_differ_within_a_load_and_not_between_two_alike() -> None:
    load = Load(None, requests=20, prompt_tokens=30, max_tokens=5, seed=1)
    bodies = list(load.bodies())
    prompts = [body["messages"][0]["content"] for body in bodies]
    assert len(set(prompts)) == 20
    assert {len(prompt.split()) for prompt in prompts} == {30}
    assert bodies == list(load.bodies())
