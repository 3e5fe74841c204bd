"""A link over a real socket pair: frames in order, bounds with a name, and ends that are heard."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import trio
import trio.testing

from headrace.runtime.frames import FrameTooLong
from headrace.runtime.link import Link, open_link


class Pair:
    """Two linked ends; `there` is a bare link that nobody writes for until it is opened."""

    def __init__(self, max_backlog_bytes: int = 1 << 20) -> None:
        ours, theirs = socket.socketpair()
        self.here, self.there = Link(ours, max_backlog_bytes), Link(theirs)


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    pair = Pair()
    async with AsyncExitStack() as opened:
        await opened.enter_async_context(open_link(pair.here))
        await opened.enter_async_context(open_link(pair.there))
        yield pair


async def test_frames_arrive_whole_and_in_order_in_both_directions(pair: Pair) -> None:
    sizes = [0, 1, 300_000, 5, 70_000]
    for size in sizes:
        pair.here.send(b"x" * size)
        pair.there.send(b"y" * size)
    with trio.fail_after(60):
        assert [await pair.there.receive() for _ in sizes] == [b"x" * size for size in sizes]
        assert [await pair.here.receive() for _ in sizes] == [b"y" * size for size in sizes]


async def test_a_receive_that_was_cut_short_loses_nothing(pair: Pair) -> None:
    with trio.move_on_after(0) as cut:
        await pair.here.receive()
    assert cut.cancelled_caught
    pair.there.send(b"first")
    pair.there.send(b"second")
    await pair.there.flushed()
    for payload in (b"first", b"second"):  # the second has been read together with the first
        with trio.CancelScope() as scope:
            scope.cancel()
            await pair.here.receive()
        assert scope.cancelled_caught
        assert await pair.here.receive() == payload


async def test_the_end_is_heard_after_everything_that_was_said_before_it(pair: Pair) -> None:
    pair.there.send(b"last words")
    await pair.there.flushed()
    pair.there.close()
    assert await pair.here.receive() == b"last words"
    assert await pair.here.receive() is None


async def test_last_words_are_heard_even_by_one_who_found_the_peer_gone(pair: Pair) -> None:
    pair.there.send(b"last words")
    await pair.there.flushed()
    pair.there.close()
    # Given that writing has met the end first
    pair.here.send(b"are you there?")
    await pair.here.flushed()
    assert pair.here.broken == "its peer is gone"
    # Then reading still comes to it in its own time
    assert await pair.here.receive() == b"last words"
    assert await pair.here.receive() is None


async def test_a_peer_that_takes_nothing_is_given_up_at_the_bound() -> None:
    pair = Pair(max_backlog_bytes=1_000_000)
    async with open_link(pair.here):
        async with trio.open_nursery() as nursery:
            ended = trio.Event()

            async def listen() -> None:
                assert await pair.here.receive() is None
                ended.set()

            nursery.start_soon(listen)
            for _ in range(20):  # more than the system's buffer and the backlog hold together
                pair.here.send(b"x" * 99_000)
                await trio.testing.wait_all_tasks_blocked()
            with trio.fail_after(60):
                await ended.wait()
        assert pair.here.broken == "its peer takes nothing"
        assert repr(pair.here) == "<Link its peer takes nothing | 0 bytes to send>"
        pair.here.send(b"dropped, for there is nobody")
        await pair.here.flushed()
    pair.there.close()


async def test_what_has_been_taken_makes_room_for_more(pair: Pair) -> None:
    """Six times more than the system takes at once, and in all more than may wait."""
    frame = b"x" * 600_000
    with trio.fail_after(60):
        for _ in range(6):
            pair.here.send(frame)
            assert await pair.there.receive() == frame
            await pair.here.flushed()
    assert repr(pair.here) == "<Link open | 0 bytes to send>"


async def test_a_frame_over_the_limit_is_refused_and_the_link_goes_on(pair: Pair) -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 1 << 40

    with pytest.raises(FrameTooLong):
        pair.here.send(Huge())
    pair.here.send(b"next")
    assert await pair.there.receive() == b"next"


async def test_bytes_that_are_no_frame_are_an_error_of_their_own() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        async with open_link(Link(ours)) as link:
            theirs.sendall(b"Traceback (most recent call last)")
            with pytest.raises(FrameTooLong):
                await link.receive()


async def test_a_stream_that_ends_inside_a_frame_just_ends() -> None:
    ours, theirs = socket.socketpair()
    async with open_link(Link(ours)) as link:
        with theirs:
            theirs.sendall(b"\x00\x00\x00\x09half")
        assert await link.receive() is None


async def test_a_closed_link_says_so_and_wakes_who_listens(pair: Pair) -> None:
    heard: list[bytes | None] = []

    async def listen() -> None:
        heard.append(await pair.here.receive())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        await trio.testing.wait_all_tasks_blocked()
        pair.here.close()
    assert heard == [None]
    assert repr(pair.here) == "<Link closed | 0 bytes to send>"
    pair.here.send(b"dropped")
    assert await pair.there.receive() is None
