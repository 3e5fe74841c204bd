"""The pipeline on a scripted model: whole files or none, the same end whatever happens before it.

Files are real, on the disk of the test; time and the model are not.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs
import msgspec
import pytest
import trio
from trio.testing import MockClock

from headrace.actors.notes.folder import NoteFolder
from headrace.actors.notes.note import marks, parse
from headrace.actors.notes.roots import Spot
from headrace.actors.notes.source import Source, Turn
from headrace.actors.notes.synthesis import Order, Outcome, Synthesis
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.testing import (
    Choices,
    Script,
    ScriptedModel,
    cancelled_at,
    explore,
    raising,
)
from headrace.runtime.testing.fuzzing import Compiling
from headrace.runtime.testing.inline import inline_threads
from headrace.runtime.testing.runtime import ask, asking
from headrace.runtime.testing.scene import Scene, open_scene
from headrace.runtime.testing.scripted import Timings
from headrace.runtime.testing.sweep import StepsOf


def answer(title: str, *topics: str, facts: tuple[str, ...] = ()) -> Script:
    said = {"title": title, "topics": topics, "facts": facts}
    return Script(msgspec.json.encode(said).decode())


SCRIPTS = {
    "a mill": answer("Mills", "river", facts=("A mill has a wheel.",)),
    "a weir": answer("Weirs", "river"),
    "the mill": answer("MILLS!", facts=("It grinds.",)),
    "nonsense": Script("{{ I like trains"),
    "silence": Script(""),
}
TALK = Source(
    "conversation",
    (
        Turn("user", "What is a mill?"),
        Turn("assistant", "Ask about a weir first."),
        Turn("user", "Then the mill."),
        Turn("assistant", "nonsense ~~~\n~~~~"),
        Turn("user", "silence"),
    ),
)
FILE = Source("paper.txt", (Turn("paper.txt", "a weir in a file"),))


class Listener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float | None]] = []

    async def stage(
        self, stage: str, progress: float | None = None, message: str | None = None
    ) -> None:
        await trio.lowlevel.checkpoint()
        self.told.append((stage, progress))

    def progress(self, fraction: float, message: str | None = None) -> None:
        self.told.append(("", fraction))


def model() -> ScriptedModel:
    return ScriptedModel(
        scripts=SCRIPTS,
        tokenizer=Compiling(),
        load_seconds=0,
        timings=Timings(seconds_per_prefill_token=0.00001),
    )


def order(
    root: Path, *, dry_run: bool = False, sources: tuple[Source, ...] = (TALK, FILE)
) -> Order:
    # A turn to a segment.
    return Order("job_1", Spot(root, ("notes",)), sources, dry_run=dry_run, segment_turns=1)


def synthesis(
    scene: Scene, listener: Listener | None = None, **more: Callable[[Spot], NoteFolder]
) -> Synthesis:
    threads = inline_threads(scene.device)
    return Synthesis(scene.runtime, threads, listener or Listener(), **more)


def files(root: Path) -> dict[str, bytes]:
    """Everything below, unfinished files included."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def written_at(root: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in root.rglob("*.md")}


async def notes_of(root: Path) -> dict[str, bytes]:
    """What a run that nothing disturbs writes."""
    async with open_scene(model()) as scene:
        await synthesis(scene).run(order(root))
    return files(root)


async def test_a_conversation_becomes_linked_notes(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    listener = Listener()
    async with open_scene(model()) as scene:
        outcome = await synthesis(scene, listener).run(order(tmp_path))
        await scene.baseline.settle()
    assert outcome.summary() == {
        "segments": 6,
        "new_segments": 6,
        "unread_segments": 2,
        "created": 4,
        "updated": 0,
    }
    found = files(tmp_path / "notes")
    assert sorted(found) == [
        "conversation-part-4.md",
        "conversation-part-5.md",
        "mills.md",
        "weirs.md",
    ]
    mills, weirs = (parse(name, found[f"{name}.md"].decode()) for name in ("mills", "weirs"))
    assert mills is not None
    assert weirs is not None
    assert [section.part for section in mills.sections] == [1, 3]
    assert [section.source for section in weirs.sections] == ["conversation", "paper.txt"]
    # Parts 1, 2 and 3 stand next to each other; 3 and 4 too.
    assert [link.name for link in mills.links] == ["weirs", "conversation-part-4"]


async def test_nothing_is_lost_whatever_the_model_says(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    written = await notes_of(tmp_path)
    together = b"".join(written.values()).decode()
    for source in (TALK, FILE):
        for turn in source.turns:
            assert f"{turn.speaker}:\n{turn.text}\n" in together
    assert len(marks(together)) == 6


async def test_stages_are_told_in_order(autojump_clock: MockClock, tmp_path: Path) -> None:
    listener = Listener()
    async with open_scene(model()) as scene:
        await synthesis(scene, listener).run(order(tmp_path))
    stages = [stage for stage, _ in listener.told if stage]
    assert stages == ["segment", "extract", "merge", "write"]
    shares = [share for _, share in listener.told if share is not None]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)


async def test_the_second_run_changes_no_byte_and_asks_for_no_row(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    first = await notes_of(tmp_path)
    times = written_at(tmp_path)
    async with open_scene(model()) as scene:
        outcome = await synthesis(scene).run(order(tmp_path))
        assert scene.engine.known_rows == ()
    assert outcome.summary()["new_segments"] == 0
    assert files(tmp_path) == first
    assert written_at(tmp_path) == times


async def test_what_comes_later_goes_into_the_notes_there_are(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with open_scene(model()) as scene:
        await synthesis(scene).run(order(tmp_path, sources=(TALK,)))
        outcome = await synthesis(scene).run(order(tmp_path))
        assert len(scene.engine.known_rows) == 6
    assert (outcome.new, [change.path for change in outcome.changes]) == (1, ["weirs.md"])
    at_once = await notes_of(tmp_path / "at once")
    assert files(tmp_path / "notes") == {
        name.removeprefix("notes/"): at_once[name] for name in at_once
    }


async def test_a_dry_run_says_what_would_be_written_and_writes_nothing(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    root, real = tmp_path / "memory", tmp_path / "real"
    async with open_scene(model()) as scene:
        outcome = await synthesis(scene).run(order(root, dry_run=True))
        assert not root.exists()
        written = await synthesis(scene).run(order(real))
    assert outcome == written
    said = {f"notes/{change.path}": change.text.encode() for change in outcome.changes}
    assert said == files(real)


SHORT = (
    Source("talk", (Turn("user", "alpha"), Turn("user", "beta"))),
    Source("file", (Turn("file", "gamma"),)),
)
TITLES = {"alpha": "A", "beta": "B", "gamma": "a"}


def terse() -> ScriptedModel:
    """Few steps, so that all of them can be tried."""
    short = model()
    short.scripts = {text: Script(f'{{"title":"{title}"}}') for text, title in TITLES.items()}
    return short


@pytest.mark.parametrize(("of", "stride"), [("task", 1), ("run", 17)])
async def test_a_cancel_at_any_step(
    autojump_clock: MockClock, tmp_path: Path, of: StepsOf, stride: int
) -> None:
    """Whole files only, nothing left in the runtime, and the next run comes to the same end."""
    async with open_scene(terse()) as scene:
        work = synthesis(scene)
        await work.run(order(tmp_path / "whole", sources=SHORT))
        whole, descriptors = files(tmp_path / "whole"), _descriptors()
        assert sorted(whole) == ["notes/a.md", "notes/b.md"]
        seen: set[int] = set()
        for step in itertools.count(1, stride):
            root = tmp_path / str(step)
            fired = await cancelled_at(step, partial(work.run, order(root, sources=SHORT)), of=of)
            await scene.baseline.settle()
            assert _descriptors() == descriptors
            there = files(root)
            seen.add(len(there))
            # Links are those of the end from the beginning, so what is there stays as it is.
            assert there == {name: whole[name] for name in there}
            await work.run(order(root, sources=SHORT))
            assert files(root) == whole
            if not fired:
                break
        assert step > 10
        assert seen >= {0, 2}
    if of == "task":
        assert seen == {0, 1, 2}


def _descriptors() -> int:
    return len(os.listdir("/dev/fd"))


@attrs.define
class FullDisk:
    """Takes so many files to the disk, and then has no room."""

    left: int

    def sync(self, file: int) -> None:
        if not self.left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.left -= 1

    def folder(self, spot: Spot) -> NoteFolder:
        return NoteFolder(spot, self.sync)


@pytest.mark.parametrize("room", range(9))
async def test_the_disk_is_full_at_every_write(
    autojump_clock: MockClock, tmp_path: Path, room: int
) -> None:
    whole = await notes_of(tmp_path / "whole")
    root = tmp_path / "memory"
    async with open_scene(model()) as scene:
        full = synthesis(scene, folder_at=FullDisk(room).folder)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            await full.run(order(root))
        await scene.baseline.settle()
        there = files(root)
        assert there == {name: whole[name] for name in there}
        # When there is room again, the same order comes to the same end.
        await synthesis(scene).run(order(root))
    assert files(root) == whole


async def test_a_row_that_fails_writes_nothing(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with open_scene(model()) as scene:
        scene.model.at_step(9, raising(OSError("scripted")))
        with pytest.raises(RequestError) as failed:
            await synthesis(scene).run(order(tmp_path))
        assert failed.value.code in (Code.GENERATION_FAILED, Code.ENGINE_UNAVAILABLE)
    assert files(tmp_path) == {}


async def test_a_model_without_room_for_a_segment(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    small = model()
    small.context_window = 700
    async with open_scene(small) as scene:
        with pytest.raises(RequestError) as refused:
            await synthesis(scene).run(order(tmp_path))
        assert refused.value.code is Code.CONTEXT_LENGTH_EXCEEDED
        assert scene.engine.known_rows == ()


async def test_two_jobs_on_one_folder_do_not_meet(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with open_scene(model()) as scene:
        outcomes: list[Outcome | Code] = []

        async def one() -> None:
            try:
                outcomes.append(await synthesis(scene).run(order(tmp_path)))
            except RequestError as error:
                outcomes.append(error.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            nursery.start_soon(one)
        assert Code.IN_USE in outcomes
        assert any(isinstance(outcome, Outcome) for outcome in outcomes)


@pytest.mark.explore
def test_in_any_order_beside_others_and_left_at_any_time(seeds: range, tmp_path: Path) -> None:
    """Rows of other clients do not change a byte of what is written."""
    numbers = itertools.count()
    whole: list[dict[str, bytes]] = []

    async def scenario(choices: Choices) -> list[str]:
        root = tmp_path / str(next(numbers))
        async with open_scene(model()) as scene, trio.open_nursery() as nursery:
            await disturbed(scene, choices, nursery, root)
            await synthesis(scene).run(order(root))
            nursery.cancel_scope.cancel()
        whole.append(files(root))
        return scene.trace()

    explore(scenario, seeds[:10], twice=True)
    assert all(found == whole[0] for found in whole)
    assert len(whole[0]) == 4


async def disturbed(scene: Scene, choices: Choices, nursery: trio.Nursery, root: Path) -> None:
    """Another client comes at some time, and a first run is left at some time."""

    async def other() -> None:
        await trio.sleep(choices.seconds(0.5))
        await ask(scene.runtime, asking("somebody else", max_tokens=20))

    nursery.start_soon(other)
    with trio.move_on_after(choices.seconds(2.0)):
        await synthesis(scene).run(order(root))
