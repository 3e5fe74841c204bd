"""Children whose crash is a value to their owner, not the end of their siblings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import outcome
import trio

T = TypeVar("T")


async def contained(run: Callable[[], Awaitable[T]]) -> outcome.Outcome[T]:
    """Run a child and answer how it ended; only cancellation passes through.

    A child that fails while it is being cancelled leaves as a group of both: the failure is
    then dropped and the cancellation goes on, since nobody is left to be told.
    """
    try:
        return outcome.Value(await run())
    except Exception as error:
        return outcome.Error(error)  # noqa: ASYNC910 - waits as its child does
    except BaseExceptionGroup as group:
        cancelled, _failure = group.split(trio.Cancelled)
        if cancelled is not None:
            raise cancelled from None
        raise


def leaves(error: BaseException) -> list[BaseException]:
    """The single errors in a group, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in leaves(part)]
    return [error]
