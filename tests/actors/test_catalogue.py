"""Models that come onto the machine while the server runs. Real threads, so real time."""

from __future__ import annotations

import threading
from collections.abc import Collection

import attrs
import trio

from headrace.actors.catalogue import Catalogue, Shelf
from headrace.actors.provision import Provision
from headrace.actors.runtime import Runtime, open_runtime
from headrace.actors.spec import ModelSpec
from headrace.runtime.settings import Settings
from headrace.runtime.testing import ScriptedLoader, ScriptedModel
from headrace.runtime.testing.runtime import ask, asking
from headrace.runtime.trace import Trace

OLD = ModelSpec("old", "old", 1000)
NEW = ModelSpec("new", "new", 1000)


@attrs.define
class Disk:
    """What a look finds, and what was known each time."""

    there: list[ModelSpec] = attrs.field(factory=list)
    looks: list[set[str]] = attrs.field(factory=list)
    broken: bool = False

    def look(self, known: Collection[str]) -> Shelf:
        self.looks.append(set(known))
        if self.broken:
            raise OSError("the disk is away")
        found = tuple(spec for spec in self.there if spec.id not in known)
        return Shelf(found, {f"/models/{spec.id}": spec.id for spec in found})


def catalogue(disk: Disk, trace: Trace | None = None) -> Catalogue:
    return Catalogue(disk.look, trace or Trace(), again_seconds=0.0)


async def test_what_is_known_is_not_found_again() -> None:
    disk = Disk([OLD, NEW])
    assert (await catalogue(disk).look({"old"})).models == (NEW,)
    assert disk.looks == [{"old"}]


async def test_a_list_that_is_read_again_and_again_reads_the_disk_once() -> None:
    disk = Disk([NEW])
    seldom = Catalogue(disk.look, Trace(), again_seconds=3600)
    assert (await seldom.look(())).models == (NEW,)
    for _ in range(3):
        assert (await seldom.look(())) == Shelf()
    assert len(disk.looks) == 1


async def test_a_disk_that_fails_brings_nothing_and_is_told_in_the_trace() -> None:
    trace = Trace()
    disk = Disk([NEW], broken=True)
    looking = catalogue(disk, trace)
    assert (await looking.look(())) == Shelf()
    (event,) = trace.events("library.failed")
    assert "the disk is away" in event.fields["reason"]
    disk.broken = False
    assert (await looking.look(())).models == (NEW,)


async def test_a_disk_that_does_not_answer_keeps_nobody_and_no_second_thread() -> None:
    answers = threading.Event()
    looks: list[Collection[str]] = []

    def look(known: Collection[str]) -> Shelf:
        looks.append(known)
        answers.wait(120)
        return Shelf((NEW,))

    trace = Trace()
    looking = Catalogue(look, trace, again_seconds=0.0, look_seconds=0.05)
    try:
        with trio.fail_after(60):
            for _ in range(3):
                assert (await looking.look(())) == Shelf()
        assert len(looks) <= 1
        assert len(trace.events("library.failed")) == 3
    finally:
        answers.set()


async def test_a_model_that_came_later_is_listed_and_served() -> None:
    disk = Disk()
    models = [ScriptedModel(id=name, load_seconds=0) for name in ("old", "new")]
    provision = Provision((OLD,), ScriptedLoader(*models), 10**9, look=disk.look)
    async with open_runtime(Settings(), provision=provision) as runtime:
        assert ids(runtime) == ["old"]
        disk.there.append(NEW)
        with trio.fail_after(60):
            # At once, unless a machine that is very busy takes longer than a look may.
            while "new" not in ids(runtime):  # noqa: ASYNC110 - a disk sets no event
                await runtime.look_for_models()
                await trio.sleep(0.1)
        assert ids(runtime) == ["old", "new"]
        for name in ("new", "/models/new"):
            answer = await ask(runtime, asking(name, model=name, max_tokens=3))
            assert answer.accepted.model == "new"
        assert runtime.statistics().current == "old"


def ids(runtime: Runtime) -> list[str]:
    return [model.id for model in runtime.statistics().models]


async def test_without_a_disk_there_is_nothing_to_look_at() -> None:
    assert (await Catalogue(None, Trace()).look(())) == Shelf()
