"""The body of a response that is pulled chunk by chunk, with nothing to close.

A generator would keep its clean-up for whoever closes it, in whatever task that is; here what the
body reads from belongs to somebody else, who leaves it in its own task.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

import trio
from quart.wrappers.response import ResponseBody


class PulledBody(ResponseBody, AsyncIterator[bytes]):
    """What is left to a subclass is `__anext__`."""

    async def __aenter__(self) -> Self:
        await trio.lowlevel.checkpoint()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await trio.lowlevel.cancel_shielded_checkpoint()
