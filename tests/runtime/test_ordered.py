"""A link that counts its frames."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import pytest

from headrace.runtime.frames import FrameGarbled
from headrace.runtime.link import Link, open_link
from headrace.runtime.ordered import NUMBER, OrderedLink


class Ends:
    def __init__(self, here: Link, there: Link) -> None:
        self.raw = here
        self.here, self.there = OrderedLink(here), OrderedLink(there)


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    ours, theirs = socket.socketpair()
    async with open_link(Link(ours)) as here, open_link(Link(theirs)) as there:
        yield Ends(here, there)


async def test_frames_in_order_come_as_they_were_sent(ends: Ends) -> None:
    payloads = [b"", b"a", b"b" * 100_000]
    for payload in payloads:
        ends.here.send(payload)
        ends.there.send(payload)
    await ends.here.flushed()
    assert [await ends.there.receive() for _ in payloads] == payloads
    assert [await ends.here.receive() for _ in payloads] == payloads
    ends.raw.close()
    assert await ends.there.receive() is None


@pytest.mark.parametrize("number", [0, 2, 7], ids=["again", "one is lost", "many are lost"])
async def test_one_that_is_not_the_next_is_found_out(ends: Ends, number: int) -> None:
    ends.here.send(b"first")
    assert await ends.there.receive() == b"first"
    ends.raw.send(NUMBER.pack(number) + b"second")
    with pytest.raises(FrameGarbled, match="frame 1 is missing"):
        await ends.there.receive()


async def test_what_is_too_short_to_have_a_number_is_found_out(ends: Ends) -> None:
    ends.raw.send(b"\x00\x00")
    with pytest.raises(FrameGarbled):
        await ends.there.receive()
