"""The link to a worker fails: its requests hear of it once, and the model comes back."""

from __future__ import annotations

import pytest
import trio

from headrace.runtime.testing.link_faults import LinkFault, faulty_links
from headrace.runtime.testing.planned import WorkerModel
from headrace.runtime.testing.site import chat
from headrace.runtime.testing.workers import open_workers

ONE = WorkerModel(id="one", decode_seconds=0.01)


@pytest.mark.parametrize("fault", ["drop", "truncate", "duplicate", "cut"])
async def test_of_a_frame_from_the_worker(fault: LinkFault) -> None:
    """What came before it is right, and nothing wrong comes after it."""
    with faulty_links() as faults:
        async with open_workers(ONE) as site, site.dial() as caller:
            await caller.send(chat(model="one", stream=True))
            await caller.read_until(b'"content":"')
            pid = site.pid("one")
            faults.from_worker = fault
            with trio.fail_after(60):
                rest = await caller.read_to_end()
            assert faults.happened == [fault]
            assert rest.count(b'"error"') == 1
            assert b'"code":"engine_unavailable"' in rest
            await site.ready("one")
            assert site.pid("one") != pid
            assert (await site.call(chat(model="one", max_tokens=3))).status == 200
            await site.idle()


async def test_of_a_frame_that_is_late() -> None:
    """Nothing but time is lost."""
    with faulty_links() as faults:
        async with open_workers(ONE) as site, site.dial() as caller:
            await caller.send(chat(model="one", stream=True, max_tokens=100))
            await caller.read_until(b'"content":"')
            faults.from_worker = "delay"
            with trio.fail_after(60):
                rest = await caller.read_to_end()
            assert faults.happened == ["delay"]
            assert b"[DONE]" in rest
            assert b'"error"' not in rest
            await site.idle()


@pytest.mark.parametrize("fault", ["drop", "duplicate"])
async def test_of_a_frame_to_the_worker(fault: LinkFault) -> None:
    """A request that never arrived, or arrived twice, is found out with the next frame."""
    with faulty_links() as faults:
        async with open_workers(ONE) as site:
            faults.to_worker = fault
            with trio.fail_after(60):
                async with trio.open_nursery() as nursery:
                    replies: list[int] = []

                    async def ask() -> None:
                        replies.append((await site.call(chat(model="one", max_tokens=2))).status)

                    for _ in range(2):
                        nursery.start_soon(ask)
                        await trio.sleep(0.05)
            assert faults.happened == [fault]
            assert set(replies) <= {200, 502}
            assert 502 in replies
            await site.ready("one")
            assert (await site.call(chat(model="one", max_tokens=2))).status == 200
            await site.idle()
