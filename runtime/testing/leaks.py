"""What is left when it should be nothing: tasks, rows, leases, queue places, KV bytes."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

import attrs
import trio
import trio.testing

from headrace.runtime.testing.scripted import ScriptedEngine


class Gauges(Protocol):
    """The part of a runtime's statistics that must return to its baseline."""

    @property
    def requests_in_flight(self) -> int: ...
    @property
    def queue_depth(self) -> int: ...
    @property
    def rows_running(self) -> int: ...
    @property
    def leases(self) -> int: ...
    @property
    def kv_bytes(self) -> int: ...


class Observed(Protocol):
    """A runtime, as far as a leak check looks at it."""

    def statistics(self) -> Gauges: ...


# pytest-trio runs each test, and each fixture, as a task of its own.
_HARNESS = ("<test ", "<fixture ")


def tasks() -> Counter[str]:
    """How many tasks of each name live in this run, those of trio and of pytest-trio left out."""
    main = trio.lowlevel.current_root_task()
    if main is None:
        return Counter()
    return Counter(task.name for task in _below(main) if not task.name.startswith(_HARNESS))


def _below(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield child
            yield from _below(child)


# What tells of the past on purpose: the trace, and the kit's own records.
_RECORDS = ("headrace.runtime.testing.", "headrace.runtime.trace")


def objects() -> Counter[str]:
    """How many objects of each class of ours are alive, whatever holds them; records left out.

    Slow, since it looks at every object there is; for tests in which something may be kept that
    no gauge counts.
    """
    gc.collect()
    counts: Counter[str] = Counter()
    for found in gc.get_objects():
        kind = type(found)
        # Classes made by foreign code may have anything for a module.
        module = str(kind.__module__)
        if module.startswith("headrace.") and not module.startswith(_RECORDS):
            counts[f"{module}.{kind.__qualname__}"] += 1
    return counts


@attrs.frozen
class Baseline:
    """Taken while a runtime is idle; `check` demands that it is just as idle again."""

    runtime: Observed
    engines: tuple[ScriptedEngine, ...]
    gauges: dict[str, int]
    tasks: Counter[str]

    @classmethod
    def of(cls, runtime: Observed, engines: Iterable[ScriptedEngine] = ()) -> Baseline:
        return cls(runtime, tuple(engines), _gauges(runtime), tasks())

    def leaks(self) -> list[str]:
        """Each thing that is more, or less, than it was, in words."""
        now = {**_gauges(self.runtime), **_named(tasks())}
        before = {**self.gauges, **_named(self.tasks)}
        found = [
            f"{name}: {before.get(name, 0)} before, {now.get(name, 0)} now"
            for name in sorted(before.keys() | now.keys())
            if before.get(name, 0) != now.get(name, 0)
        ]
        for engine in self.engines:
            found += [f"row {row} is still in {engine!r}" for row in engine.rows]
            found += [f"port misused: {misuse}" for misuse in engine.misuses]
        return found

    def check(self) -> None:
        found = self.leaks()
        assert not found, "something is left:\n" + "\n".join(found)

    async def settle(self) -> None:
        """`check`, once every message that is on its way has been taken."""
        await trio.testing.wait_all_tasks_blocked()
        self.check()


def _gauges(runtime: Observed) -> dict[str, int]:
    now = runtime.statistics()
    return {
        "requests_in_flight": now.requests_in_flight,
        "queue_depth": now.queue_depth,
        "rows_running": now.rows_running,
        "leases": now.leases,
        "kv_bytes": now.kv_bytes,
    }


def _named(counts: Counter[str]) -> dict[str, int]:
    return {f"task {name}": count for name, count in counts.items()}
