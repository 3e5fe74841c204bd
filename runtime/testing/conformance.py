"""Real actors against the machine of `lifecycle.py`: what each ticket's messages may be.

A `Wiretap` listens where messages are taken and deliveries come in; it changes nothing. A ticket's
log is right if the machine could have written it: all worlds that fit are followed, label by label.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from headrace.actors.host import Host
from headrace.actors.messages import Cancel, Delivery, Ended, Prepare, Prepared, Refused, Submit
from headrace.actors.runtime import Runtime
from headrace.runtime.contracts import Failed, Finished
from headrace.runtime.testing.lifecycle import Machine, Move, World
from headrace.runtime.trace import TraceEvent

# What is seen of a message, by the name of its class.
LABELS = {
    "_Enter": "enter",
    "_Admit": "admit",
    "_Leave": "leave",
    "_Acquire": "acquire",
    "_Release": "release",
    Prepare.__name__: "prepare",
    Submit.__name__: "submit",
    Cancel.__name__: "cancel",
    Prepared.__name__: "prepared",
    Refused.__name__: "refused",
    Ended.__name__: "ended",
    Finished.__name__: "end",
    Failed.__name__: "end",
}
# A ticket is cancelled twice at most: from outside, and by the model that is to go.
ALONE = Machine(tickets=1, cancels=2, deaths=3, refusals=2)


class NotConforming(AssertionError):
    """A ticket's messages came in an order that the machine excludes."""


@attrs.define
class Wiretap:
    """Messages of each request, in the order in which they were taken, by its ticket."""

    logs: defaultdict[str, list[str]] = attrs.field(factory=lambda: defaultdict(list))
    _over: set[str] = attrs.field(factory=set)

    @classmethod
    def on(cls, runtime: Runtime) -> Wiretap:
        """Listen to a runtime whose models are not loaded yet."""
        tap = cls()
        for actor in (runtime.registry, runtime._admission):
            _replace(actor, "handle", tap._before(actor.handle))
        for host in runtime.registry._hosts.values():
            tap._listen_to(host)
        runtime.trace.listen(tap._on_event)
        return tap

    def check(self) -> None:
        """Raises `NotConforming` for the first ticket whose log the machine could not write."""
        for ticket, log in self.logs.items():
            conform(log, ticket)

    def _before(self, handle: Callable[[Any], None]) -> Callable[[Any], None]:
        def taking(message: Any) -> None:
            self._note(message)
            handle(message)

        return taking

    def _listen_to(self, host: Host) -> None:
        opened, deliver, closed = host.open, host.deliver, host.close

        def opening(info: Any, tell: Callable[[Any], None]) -> None:
            opened(info, self._before(tell))

        def delivering(delivery: Delivery) -> None:
            for ticket, item in delivery.items:
                self._write(ticket, LABELS.get(type(item).__name__))
            deliver(delivery)

        def closing(error: Any) -> None:
            if host.info is not None:
                for ticket in self.logs.keys() - self._over:
                    self._write(ticket, "die")
            closed(error)

        for name, listening in (("open", opening), ("deliver", delivering), ("close", closing)):
            _replace(host, name, listening)

    def _on_event(self, event: TraceEvent) -> None:
        if event.name == "request.ended":
            self._write(event.ticket, "done")
            self._over.add(event.ticket)

    def _note(self, message: Any) -> None:
        self._write(getattr(message, "ticket", ""), LABELS.get(type(message).__name__))

    def _write(self, ticket: str, label: str | None) -> None:
        # Loads by hand hold a lease under a ticket of another kind, and go through no stages.
        if label is not None and ticket.startswith("t"):
            self.logs[ticket].append(label)


def _replace(owner: object, name: str, function: Callable[..., None]) -> None:
    setattr(owner, name, function)


def conform(log: Iterable[str], ticket: str = "a ticket", machine: Machine = ALONE) -> None:
    """Raises `NotConforming` where the machine could not have written this log."""
    seen: list[str] = []
    worlds = _anywhere(machine)
    for label in log:
        worlds = _after(machine, worlds, label)
        if not worlds:
            before = ", ".join(seen) or "nothing"
            raise NotConforming(f"{ticket}: {label!r} cannot come after {before}")
        seen.append(label)


@functools.cache
def _anywhere(machine: Machine) -> frozenset[World]:
    """A ticket may come while the model is absent, loading, ready, or dead and nobody knows."""
    start = machine.start()
    ready = start._replace(believed="ready", serving=True)
    dead = start._replace(believed="ready", to_registry=(("died", -1),))
    return frozenset({start, start._replace(believed="loading"), ready, dead})


@functools.cache
def _moves(machine: Machine, world: World) -> tuple[Move, ...]:
    return tuple(machine.moves(world))


@functools.cache
def _after(machine: Machine, worlds: frozenset[World], label: str) -> frozenset[World]:
    """All worlds after a label, with anything unseen before it."""
    to_visit, quiet = list(worlds), set(worlds)
    after: set[World] = set()
    while to_visit:
        for move in _moves(machine, to_visit.pop()):
            if move.label == label:
                after.add(move.world)
            elif not move.label and move.world not in quiet:
                quiet.add(move.world)
                to_visit.append(move.world)
    return frozenset(after)
