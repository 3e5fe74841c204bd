"""A sink keeps what is unread, in order, merged, and ends once."""

from __future__ import annotations

import itertools

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import (
    MockClock,
    assert_checkpoints,
    assert_no_checkpoints,
    wait_all_tasks_blocked,
)

from headrace.runtime.contracts import Accepted, Delta, Event, Failed, Finished, Usage
from headrace.runtime.errors import Code, ErrorInfo
from headrace.runtime.sink import StreamSink
from headrace.runtime.testing import Choices, explore, sweep

ACCEPTED = Accepted("m", 3, 10, "fp_0")
FINISHED = Finished("stop", Usage(3, 2))
FAILED = Failed(ErrorInfo(Code.GENERATION_FAILED, "no"))


async def read_all(sink: StreamSink) -> list[Event]:
    events: list[Event] = []
    while True:
        try:
            events.append(await sink.receive())
        except trio.EndOfChannel:
            return events


async def test_text_that_piled_up_comes_as_one_delta() -> None:
    sink = StreamSink()
    for event in (ACCEPTED, Delta("He", 2), Delta("llo", 3), FINISHED):
        sink.put(event)
    assert await read_all(sink) == [ACCEPTED, Delta("Hello", 5), FINISHED]


async def test_texts_of_two_choices_stay_apart() -> None:
    sink = StreamSink()
    events = [Delta("a", choice=0), Delta("b", choice=1), Delta("c", choice=0)]
    for event in events:
        sink.put(event)
    sink.put(FINISHED)
    assert await read_all(sink) == [*events, FINISHED]


async def test_what_was_read_is_not_merged_with_what_comes() -> None:
    sink = StreamSink()
    sink.put(Delta("a"))
    assert await sink.receive() == Delta("a")
    sink.put(Delta("b"))
    assert await sink.receive() == Delta("b")


async def test_the_first_end_wins_and_nothing_follows_it() -> None:
    sink = StreamSink()
    for event in (FINISHED, FAILED, Delta("late")):
        sink.put(event)
    assert sink.end is FINISHED
    assert await read_all(sink) == [FINISHED]


async def test_after_the_end_every_read_says_so() -> None:
    sink = StreamSink()
    sink.put(FINISHED)
    await sink.receive()
    for _ in range(2):
        with assert_checkpoints(), pytest.raises(trio.EndOfChannel):
            await sink.receive()


async def test_a_reader_waits_for_the_next_event(nursery: trio.Nursery) -> None:
    sink = StreamSink()
    record: list[Event] = []

    async def read() -> None:
        record.extend(await read_all(sink))

    nursery.start_soon(read)
    await wait_all_tasks_blocked()
    sink.put(Delta("a"))
    await wait_all_tasks_blocked()
    sink.put(FINISHED)
    await wait_all_tasks_blocked()
    assert record == [Delta("a"), FINISHED]


async def test_putting_never_waits_and_reading_always_checkpoints() -> None:
    sink = StreamSink()
    with assert_no_checkpoints():
        sink.put(Delta("a"))
    with assert_checkpoints():
        await sink.receive()


async def test_a_read_that_is_cut_short_loses_nothing(autojump_clock: MockClock) -> None:
    sink = StreamSink()
    with trio.move_on_after(1) as waiting:
        await sink.receive()
    sink.put(Delta("a"))
    with trio.CancelScope() as ready:
        ready.cancel()
        await sink.receive()
    assert (waiting.cancelled_caught, ready.cancelled_caught) == (True, True)
    assert await sink.receive() == Delta("a")


@pytest.mark.parametrize("waits", [True, False])
async def test_cut_short_at_any_step_a_read_loses_nothing(
    autojump_clock: MockClock, waits: bool
) -> None:
    sink, read = StreamSink(), list[Event]()
    puts = itertools.count()

    async def put() -> None:
        if waits:
            await trio.sleep(1)
        sink.put(Delta(f"{next(puts)} "))

    async def one_read() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(put)
            read.append(await sink.receive())

    async def check() -> None:
        if sink.statistics().events:
            read.append(await sink.receive())
        text = "".join(event.text for event in read if isinstance(event, Delta))
        assert text == "".join(f"{number} " for number in range(len(text.split())))
        written = next(puts)
        assert len(text.split()) == written
        sink.put(Delta(f"{written} "))

    assert await sweep(one_read, check, of="run") > 1


async def test_it_knows_since_when_something_has_waited(autojump_clock: MockClock) -> None:
    sink = StreamSink()
    assert sink.unread_since is None
    await trio.sleep(2)
    sink.put(ACCEPTED)
    await trio.sleep(3)
    sink.put(Delta("a"))
    assert sink.unread_since == 2
    await sink.receive()
    assert sink.unread_since == 5  # its reader has just shown that it reads
    await sink.receive()
    assert sink.unread_since is None


async def test_memory_is_bounded_by_the_text_whatever_the_number_of_tokens() -> None:
    sink = StreamSink()
    sink.put(ACCEPTED)
    for _ in range(10_000):
        sink.put(Delta("x"))
    state = sink.statistics()
    assert (state.events, state.characters, state.ended) == (2, 10_000, False)
    assert repr(sink) == "<StreamSink 2 events, open>"


async def test_text_and_tokens_add_up_in_linear_time() -> None:
    sink = StreamSink()
    pieces = [f"{number} " for number in range(2000)]
    for piece in pieces:
        sink.put(Delta(piece, 2))
    assert await sink.receive() == Delta("".join(pieces), 4000)


@given(st.lists(st.one_of(st.text(max_size=3).map(Delta), st.just("read"), st.just("cut"))))
def test_whatever_is_put_is_read_in_order(history: list[Delta | str]) -> None:
    async def scenario() -> tuple[str, int]:
        sink, read = StreamSink(), list[Event]()
        for item in history:
            if isinstance(item, Delta):
                sink.put(item)
            else:
                with trio.move_on_after(0 if item == "cut" else 1):
                    read.append(await sink.receive())
        sink.put(FINISHED)
        read += await read_all(sink)
        assert read[-1] is FINISHED
        deltas = [event for event in read if isinstance(event, Delta)]
        return "".join(delta.text for delta in deltas), sum(delta.tokens for delta in deltas)

    put = [item for item in history if isinstance(item, Delta)]
    expected = "".join(delta.text for delta in put), sum(delta.tokens for delta in put)
    assert trio.run(scenario, clock=MockClock(autojump_threshold=0)) == expected


def test_under_every_schedule_a_reader_that_is_cut_short_gets_everything_once() -> None:
    async def scenario(choices: Choices) -> list[Event]:
        sink, read = StreamSink(), list[Event]()

        async def write() -> None:
            for letter in "abcdefgh":
                await trio.sleep(choices.below(3))
                sink.put(Delta(letter))
            sink.put(FINISHED)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            while sink.end is None or not read or read[-1] is not FINISHED:
                with trio.move_on_after(choices.below(3)):
                    read.append(await sink.receive())
        text = "".join(event.text for event in read if isinstance(event, Delta))
        assert text == "abcdefgh"
        return read

    explore(scenario, range(200), twice=True)
