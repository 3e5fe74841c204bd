"""A crowd that leaves at once is cleared up in small groups, so that others get their turns."""

from __future__ import annotations

import trio

from headrace.http.peer import CLOSED_AT_ONCE
from headrace.runtime.testing.site import http, open_site

CROWD = 200
# Of a connection that clears up: more than it takes.
STEPS_OF_ONE = 16


class Passes(trio.abc.Instrument):
    """How many steps of tasks trio ran between two looks at the sockets."""

    def __init__(self) -> None:
        self.steps: list[int] = [0]

    def after_io_wait(self, timeout: float) -> None:
        self.steps.append(0)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps[-1] += 1


async def test_a_crowd_that_leaves_at_once_is_cleared_up_in_small_groups() -> None:
    async with open_site() as site:
        clients = [await trio.open_tcp_stream("127.0.0.1", site.port) for _ in range(CROWD)]
        # Whoever is answered after them has been accepted after them.
        assert (await site.call(http("GET", "/health"))).status == 200
        passes = Passes()
        trio.lowlevel.add_instrument(passes)
        for client in clients:
            client.socket.close()
        await site.idle()
        trio.lowlevel.remove_instrument(passes)

    crowded = [steps for steps in passes.steps if steps > CLOSED_AT_ONCE * STEPS_OF_ONE]
    # Each of them learns of its end in whichever pass, and does no more than that in it.
    assert sum(crowded) < 2 * CROWD
