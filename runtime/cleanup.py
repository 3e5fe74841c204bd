"""The only place where work is shielded from cancellation, and always with a number or an owner."""

from __future__ import annotations

import trio


def bounded_cleanup(seconds: float) -> trio.CancelScope:
    """A scope for the awaits of a clean-up: outer cancellation waits for it, but no longer.

    Afterwards `scope.cancelled_caught` says whether the bound cut it short.
    """
    return trio.move_on_after(seconds, shield=True)


def sheltered() -> trio.CancelScope:
    """A scope that outer cancellation does not reach.

    Whoever opens it must cancel it from a clean-up that has a bound of its own.
    """
    return trio.CancelScope(shield=True)
