"""A trio run in which nothing comes from outside: no input or output, no threads, no real time.

It is trio's own loop over trio's own tasks. What it leaves out is what a run has for the world: it
opens no sockets to be woken by, and asks no system whether something has come.
"""

from __future__ import annotations

import contextvars
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

import trio
import trio.testing

T = TypeVar("T")

# What is needed of trio's loop has no public name, so it is relied on in a version that was tried.
TRIED = "0.35."
_trio: Any = trio._core._run


class StillClock(trio.abc.Clock):
    """Starts at 0, and jumps to the next deadline when nothing else can happen, as a `MockClock`
    with an `autojump_threshold` of 0 does. That one takes a whole turn of the loop to jump."""

    def __init__(self, doorbell: _Doorbell) -> None:
        self._now = 0.0
        self._doorbell = doorbell
        self._idle_waiters: Any = ()

    def attach(self, runner: Any) -> None:
        """Tasks in `wait_all_tasks_blocked` come before any jump."""
        self._idle_waiters = runner.waiting_for_idle

    def start_clock(self) -> None:
        """It stands still by itself."""

    def current_time(self) -> float:
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Called by the loop when no task can run."""
        if self._idle_waiters or self._doorbell.rung:
            return math.inf
        if deadline == math.inf:
            raise RuntimeError("nothing can happen any more")
        if deadline > self._now:
            self.jump(deadline - self._now)
        return 0.0

    def jump(self, seconds: float) -> None:
        """Let so much time pass at once."""
        if seconds < 0:
            raise ValueError("time does not go back")
        self._now += seconds

    def __repr__(self) -> str:
        return f"<StillClock {self._now:.6f}>"


class _Doorbell:
    """Wakes the task that runs what was put into the run from outside of its tasks, such as the end
    of a generator that nobody holds any more."""

    def __init__(self) -> None:
        self.rung = False
        self._waiter: trio.lowlevel.Task | None = None

    def wakeup_on_signals(self) -> None:
        """Nothing sleeps here that a signal would have to wake."""

    def wakeup_thread_and_signal_safe(self) -> None:
        self.rung = True

    async def wait_woken(self) -> None:
        self._waiter = trio.lowlevel.current_task()
        try:
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.SUCCEEDED)
        finally:
            self._waiter = None

    def answer(self) -> None:
        self.rung = False
        if self._waiter is not None:
            trio.lowlevel.reschedule(self._waiter)
            self._waiter = None

    def close(self) -> None:
        """There is nothing to close."""


class _Nowhere:
    """Stands where trio asks the system for input and output."""

    def __init__(self, doorbell: _Doorbell) -> None:
        self._doorbell = doorbell

    def get_events(self, timeout: float) -> bool:
        return self._doorbell.rung

    def process_events(self, events: bool) -> None:
        if events:
            self._doorbell.answer()

    async def wait_readable(self, fd: object) -> NoReturn:
        raise RuntimeError("no input or output in a run of a chosen schedule")

    wait_writable = wait_readable

    def force_wakeup(self) -> None:
        self._doorbell.wakeup_thread_and_signal_safe()

    def statistics(self) -> None:
        return None

    def close(self) -> None:
        """There is nothing to close."""


class _NoInstruments(dict[str, Any]):
    """The loop asks about instruments several times in each step. These are none, until one is
    added."""

    def __init__(self, runner: Any) -> None:
        super().__init__()
        self._runner = runner

    def add_instrument(self, instrument: trio.abc.Instrument) -> None:
        self._runner.instruments = _trio.Instruments((instrument,))


class _NoHandler:
    """In place of trio's own for Ctrl-C: a run that it ends is not gone on with."""

    def close(self) -> None:
        """There is nothing to put back."""


def run_still(main: Callable[[], Awaitable[T]]) -> T:
    """As `trio.run(main)` on a clock that starts at 0, for a `main` that needs nothing but time.

    With another version of trio than the one that was tried it is that: slower, and the same.
    """
    if not trio.__version__.startswith(TRIED):
        return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    if trio.lowlevel.in_trio_run():
        raise RuntimeError("a run inside a run")
    runner = _runner()
    library = _trio.sniffio_library
    before, library.name = library.name, "trio"
    try:
        loop = _trio.unrolled_run(runner, main, ())
        events: bool | None = None
        with suppress(StopIteration):
            while True:
                events = runner.io_manager.get_events(loop.send(events))
    except trio.TrioInternalError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise
    finally:
        library.name = before
    result: T = runner.main_task_outcome.unwrap()
    return result


def _runner() -> Any:
    doorbell = _Doorbell()
    clock = StillClock(doorbell)
    runner = _trio.Runner(
        clock=clock,
        instruments=None,
        io_manager=_Nowhere(doorbell),
        system_context=contextvars.copy_context(),
        ki_manager=_NoHandler(),
        strict_exception_groups=True,
        entry_queue=_trio.EntryQueue(wakeup=doorbell),
    )
    runner.instruments = _NoInstruments(runner)
    clock.attach(runner)
    runner.asyncgens.install_hooks(runner)
    _trio.GLOBAL_RUN_CONTEXT.runner = runner
    return runner
