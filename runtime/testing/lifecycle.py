"""The life of tickets as a state machine: acquire, admit, submit, step, end, release.

Pure, and small enough to be looked at whole. Every party of `design/protocol.md` is here with what
it knows of each ticket, and so is every message on its way; at each point a request may be
cancelled or refused, and the model may die. `reachable` visits every interleaving there is.
`conformance.py` holds the real actors to the same machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

import attrs

Phase: TypeAlias = Literal[
    "new",
    "entering",
    "acquiring",
    "preparing",
    "admitting",
    "running",
    "unseating",
    "releasing",
    "leaving",
    "done",
]
SEATED = ("preparing", "admitting", "running", "unseating")
# Where a request can still be cancelled: from then on it only gives back.
HOLDING = ("entering", "acquiring", "preparing", "admitting", "running")
Message: TypeAlias = tuple[str, int]


class Ticket(NamedTuple):
    """One request: where its scope is, what its reader was told, and the answers it has got."""

    phase: Phase = "new"
    end: str = ""
    answers: frozenset[str] = frozenset()
    # The life of the model in which its seat was taken.
    life: int = -1


class World(NamedTuple):
    """All parties at one instant. Mailboxes are in the order of arrival."""

    tickets: tuple[Ticket, ...]
    # What the Model actor has of each ticket: building, built, joining, row, going.
    rows: tuple[str, ...]
    cancels: int
    deaths: int
    refusals: int
    to_admission: tuple[Message, ...] = ()
    to_registry: tuple[Message, ...] = ()
    to_model: tuple[Message, ...] = ()
    deliveries: tuple[Message, ...] = ()
    entered: frozenset[int] = frozenset()
    line: tuple[int, ...] = ()
    granted: frozenset[int] = frozenset()
    waiting: frozenset[int] = frozenset()
    leases: frozenset[int] = frozenset()
    # What the registry believes, and whether the model can be reached; news lie between them.
    believed: Literal["absent", "loading", "ready"] = "absent"
    serving: bool = False
    life: int = 0

    def ticket(self, i: int, **changes: object) -> World:
        changed = self.tickets[i]._replace(**changes)  # type: ignore[arg-type]
        return self._replace(tickets=(*self.tickets[:i], changed, *self.tickets[i + 1 :]))

    def row(self, i: int, state: str) -> World:
        return self._replace(rows=(*self.rows[:i], state, *self.rows[i + 1 :]))

    def answer(self, i: int, answer: str) -> World:
        return self.ticket(i, answers=self.tickets[i].answers | {answer})

    def told(self, i: int, end: str) -> World:
        """The first end wins, and nothing follows it."""
        return self if self.tickets[i].end else self.ticket(i, end=end)


# A fault may happen; everything else must be able to happen.
FAULTS = ("cancel", "die", "refuse")


class Move(NamedTuple):
    """`label` names what an observer of the messages sees; it is empty where nothing is seen."""

    name: str
    i: int
    world: World
    label: str = ""

    @property
    def fault(self) -> bool:
        return self.name.partition(" ")[0] in FAULTS


@attrs.frozen
class Machine:
    """`tickets` requests of one model with `rows` rows and `places` places.

    At most `cancels` requests are cancelled, `refusals` refused, and the model dies `deaths` times.
    With `joins` false a scope does not wait for its row's end: the mistake that the machine exists
    to exclude.
    """

    tickets: int = 1
    rows: int = 1
    places: int = 2
    cancels: int = 1
    deaths: int = 1
    refusals: int = 1
    joins: bool = True

    def start(self) -> World:
        tickets = (Ticket(),) * self.tickets
        rows = ("",) * self.tickets
        return World(tickets, rows, self.cancels, self.deaths, self.refusals)

    def moves(self, world: World) -> Iterator[Move]:
        """Everything that can happen next."""
        for i in range(self.tickets):
            yield from self._scope(world, i)
            yield from _model(world, i)
        yield from self._admission(world)
        yield from _registry(world)
        yield from _life(world)
        yield from _inbox(world)
        yield from _delivery(world)

    # ---- the request's scope -------------------------------------------------------------

    def _scope(self, world: World, i: int) -> Iterator[Move]:
        ticket = world.tickets[i]
        after = self._on_answer(world, i, ticket)
        if after is not None:
            name, label, next_world = after
            yield Move(name, i, next_world, label)
        if world.cancels and ticket.phase in HOLDING:
            cancelled = world._replace(cancels=world.cancels - 1).told(i, "cancelled")
            label, back = _back(cancelled, i)
            yield Move("cancel", i, back, label)
            if ticket.phase in SEATED and "ended" not in ticket.answers:
                # The model is to go without it; the scope finds out in its own time.
                evicted = _unprepared(_tell(cancelled, i, "cancel"), i)
                yield Move("cancel by eviction", i, evicted, "cancel")

    def _on_answer(self, world: World, i: int, ticket: Ticket) -> tuple[str, str, World] | None:
        has = ticket.answers
        match ticket.phase:
            case "new":
                return "arrive", "", _ask(world, i, "entering", "to_admission", "enter")
            case "entering" if "entered" in has:
                return "entered", "", _ask(world, i, "acquiring", "to_registry", "acquire")
            case "acquiring" if "leased" in has:
                return _sit(world, i)
            case "preparing" if "prepared" in has:
                return "prepared", "", _ask(world, i, "admitting", "to_admission", "admit")
            case "admitting" if "planned" in has:
                return "planned", "submit", _tell(world.ticket(i, phase="running"), i, "submit")
            case "running" if "ended" in has:
                return "is over", "", _back(world, i)[1]
            case "unseating" if "ended" in has or not self.joins:
                return "rise", "", _ask(world, i, "releasing", "to_registry", "release")
            case "releasing" if "released" in has:
                return "released", "", _ask(world, i, "leaving", "to_admission", "leave")
            case "leaving" if "left" in has:
                return "finish", "done", world.ticket(i, phase="done").told(i, "failed")
            case _ if "no" in has and ticket.phase in HOLDING:
                label, back = _back(world.told(i, "failed"), i)
                return "give up", label, back
        return None

    # ---- the admission stage --------------------------------------------------------------

    def _admission(self, world: World) -> Iterator[Move]:
        if not world.to_admission:
            return
        (kind, i), rest = world.to_admission[0], world.to_admission[1:]
        world = world._replace(to_admission=rest)
        if kind == "leave":
            gone = world._replace(
                entered=world.entered - {i},
                line=tuple(other for other in world.line if other != i),
                granted=world.granted - {i},
            )
            yield Move("leave", i, self._grant(gone.answer(i, "left")), "leave")
        elif kind == "enter":
            if len(world.entered) + len(world.granted) < self.places:
                entered = world._replace(entered=world.entered | {i})
                yield Move("enter", i, entered.answer(i, "entered"), "enter")
            if len(world.entered) + len(world.granted) >= self.places or world.refusals:
                yield _refused(world, i, "enter")
        elif i in world.entered:
            yield Move("admit", i, self._grant(world._replace(line=(*world.line, i))), "admit")
            if world.refusals:
                yield _refused(world, i, "admit")
        else:
            yield Move("admit in vain", i, world, "admit")

    def _grant(self, world: World) -> World:
        while world.line and len(world.granted) < self.rows:
            i, *line = world.line
            world = world._replace(
                line=tuple(line), entered=world.entered - {i}, granted=world.granted | {i}
            ).answer(i, "planned")
        return world


# ---- what the other parties do -----------------------------------------------------------


def _registry(world: World) -> Iterator[Move]:
    if not world.to_registry:
        return
    (kind, i), rest = world.to_registry[0], world.to_registry[1:]
    world = world._replace(to_registry=rest)
    match kind:
        case "release":
            gone = world._replace(waiting=world.waiting - {i}, leases=world.leases - {i})
            yield Move("release", i, gone.answer(i, "released"), "release")
        case "acquire" if world.believed == "ready" and world.serving:
            leased = world._replace(leases=world.leases | {i})
            yield Move("acquire", i, leased.answer(i, "leased"), "acquire")
        case "acquire":
            # Also where the model has just died and nobody has said so: the next life is to serve.
            believed = "loading" if world.believed == "absent" else world.believed
            waits = world._replace(waiting=world.waiting | {i}, believed=believed)
            yield Move("acquire", i, waits, "acquire")
        case "loaded":
            yield Move("loaded", i, _let_in(world._replace(believed="ready")))
        case "died":
            # It is started again at once, so whoever waits goes on waiting.
            yield Move("hear of the death", i, world._replace(believed="loading"))
        case "not loaded":
            for waiter in sorted(world.waiting):
                world = world.answer(waiter, "no")
            yield Move("not loaded", i, world._replace(believed="absent", waiting=frozenset()))


def _let_in(world: World) -> World:
    """The model is there for all who wait, unless it has died meanwhile."""
    if not world.serving:
        return world
    for waiter in sorted(world.waiting):
        world = world.answer(waiter, "leased")
    return world._replace(leases=world.leases | world.waiting, waiting=frozenset())


def _life(world: World) -> Iterator[Move]:
    """The model comes to life, fails to, or dies with all that is in it."""
    news = any(kind in ("loaded", "died", "not loaded") for kind, _ in world.to_registry)
    if world.believed == "loading" and not world.serving and not news:
        alive = world._replace(serving=True)
        yield Move("load", -1, _post(alive, "to_registry", ("loaded", -1)))
        if world.refusals and not world.leases:
            refused = world._replace(refusals=world.refusals - 1)
            yield Move("refuse load", -1, _post(refused, "to_registry", ("not loaded", -1)))
    if world.serving and world.deaths:
        dead = world._replace(
            deaths=world.deaths - 1,
            serving=False,
            life=world.life + 1,
            rows=("",) * len(world.rows),
            to_model=(),
            deliveries=(),
        )
        for i, ticket in enumerate(world.tickets):
            if ticket.phase in SEATED and ticket.life == world.life:
                dead = _unprepared(dead.told(i, "failed").answer(i, "ended"), i)
        yield Move("die", -1, _post(dead, "to_registry", ("died", -1)), "die")


def _inbox(world: World) -> Iterator[Move]:
    """The Model actor takes a message."""
    if not world.to_model:
        return
    (kind, i), rest = world.to_model[0], world.to_model[1:]
    world = world._replace(to_model=rest)
    state = world.rows[i]
    if kind == "prepare":
        world = world.row(i, "building")
    elif kind == "submit" and state == "built":
        world = world.row(i, "joining")
    elif kind == "cancel" and state == "row":
        world = world.row(i, "going")
    elif kind == "cancel" and state in ("building", "built", "joining"):
        world = _deliver(world.row(i, ""), i, "ended")
    yield Move(f"take {kind}", i, world)


def _model(world: World, i: int) -> Iterator[Move]:
    """What the Model actor does with a ticket by itself; each step boundary is one move."""
    match world.rows[i]:
        case "building":
            yield Move("build", i, _deliver(world.row(i, "built"), i, "prepared"))
            if world.refusals:
                refused = world._replace(refusals=world.refusals - 1).row(i, "")
                refused = _deliver(_deliver(refused, i, "refused"), i, "ended")
                yield Move("refuse prompt", i, refused)
        case "joining":
            yield Move("join", i, world.row(i, "row"))
        case "row":
            yield Move("say the last", i, _deliver(world.row(i, "going"), i, "end"))
        case "going":
            yield Move("go", i, _deliver(world.row(i, ""), i, "ended"))


def _delivery(world: World) -> Iterator[Move]:
    """The host routes one item to its seat; without a seat it is dropped."""
    if not world.deliveries:
        return
    (kind, i), rest = world.deliveries[0], world.deliveries[1:]
    world = world._replace(deliveries=rest)
    if world.tickets[i].phase in SEATED:
        if kind == "end":
            world = world.told(i, "ok")
        elif kind == "refused":
            world = world.answer(i, "no")
        else:
            world = world.answer(i, kind)
    yield Move(f"hear {kind}", i, world, kind)


def _unprepared(world: World, i: int) -> World:
    """There will be no prompt; who has one goes on, and finds out at the next stage."""
    return world.answer(i, "no") if world.tickets[i].phase == "preparing" else world


# ---- small steps ---------------------------------------------------------------------------


def _post(world: World, box: str, message: Message) -> World:
    return world._replace(**{box: (*getattr(world, box), message)})  # type: ignore[arg-type]


def _ask(world: World, i: int, phase: Phase, box: str, kind: str) -> World:
    return _post(world.ticket(i, phase=phase), box, (kind, i))


def _tell(world: World, i: int, kind: str) -> World:
    """To the life in which the seat was taken; a message to a dead one goes nowhere."""
    if world.serving and world.tickets[i].life == world.life:
        return _post(world, "to_model", (kind, i))
    return world


def _deliver(world: World, i: int, kind: str) -> World:
    return _post(world, "deliveries", (kind, i))


def _refused(world: World, i: int, label: str) -> Move:
    refused = world._replace(refusals=max(0, world.refusals - 1)).answer(i, "no")
    return Move(f"refuse {label}", i, refused, label)


def _sit(world: World, i: int) -> tuple[str, str, World]:
    if not world.serving:  # it died after the grant
        return "no seat", "", _back(world.told(i, "failed"), i)[1]
    seated = world.ticket(i, phase="preparing", life=world.life)
    return "sit", "prepare", _tell(seated, i, "prepare")


def _back(world: World, i: int) -> tuple[str, World]:
    """Begin to give back what the ticket holds, the innermost first: (what is seen, the world)."""
    match world.tickets[i].phase:
        case "entering":
            return "", _ask(world, i, "leaving", "to_admission", "leave")
        case "acquiring":
            return "", _ask(world, i, "releasing", "to_registry", "release")
        case _:
            unseating = world.ticket(i, phase="unseating")
            if "ended" in world.tickets[i].answers:
                return "", unseating
            return "cancel", _tell(unseating, i, "cancel")


# ---- looking at all of it ------------------------------------------------------------------


def reachable(machine: Machine) -> dict[World, list[Move]]:
    """Every world that can come about, with everything that can happen in it, breadth first."""
    start = machine.start()
    found: dict[World, list[Move]] = {start: []}
    to_visit = deque([start])
    while to_visit:
        world = to_visit.popleft()
        moves = found[world] = list(machine.moves(world))
        for move in moves:
            if move.world not in found:
                found[move.world] = []
                to_visit.append(move.world)
    return found
