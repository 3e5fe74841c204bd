"""Writes notes in processes of which each kills itself at another moment. Started by a test.

    python killed_child.py FOLDER

For n = 1, 2, ... a process writes to FOLDER/n, and is gone, by SIGKILL, when it is about to bring
something to the disk for the n-th time; until one comes to its end.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import trio
import trio.testing

from headrace.actors.notes.folder import NoteFolder
from headrace.actors.notes.roots import Spot
from headrace.actors.notes.source import Source, Turn
from headrace.actors.notes.synthesis import Order, Synthesis
from headrace.runtime.testing import Script, ScriptedModel
from headrace.runtime.testing.fuzzing import Compiling
from headrace.runtime.testing.inline import inline_threads
from headrace.runtime.testing.scene import open_scene

TALK = Source("talk", tuple(Turn("user", text) for text in ("alpha", "beta", "gamma", "alpha 2")))
TITLES = {"alpha": "A", "beta": "B", "gamma": "C"}


class Quiet:
    async def stage(
        self, stage: str, progress: float | None = None, message: str | None = None
    ) -> None:
        await trio.lowlevel.checkpoint()

    def progress(self, fraction: float, message: str | None = None) -> None:
        """Nobody listens."""


async def write_notes(root: Path, killed_at: int | None) -> None:
    left = killed_at or 0

    def sync(file: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        os.fsync(file)

    scripts = {text: Script(f'{{"title":"{title}"}}') for text, title in TITLES.items()}
    model = ScriptedModel(scripts=scripts, tokenizer=Compiling(), load_seconds=0)
    async with open_scene(model) as scene:
        work = Synthesis(
            scene.runtime,
            inline_threads(scene.device),
            Quiet(),
            lambda spot: NoteFolder(spot, sync),
        )
        await work.run(Order("job_1", Spot(root, ("notes",)), (TALK,), segment_turns=1))


def run(root: Path, killed_at: int | None) -> None:
    trio.run(write_notes, root, killed_at, clock=trio.testing.MockClock(autojump_threshold=0))


def main(folder: Path) -> None:
    for number in range(1, 100):
        child = os.fork()
        if child == 0:
            run(folder / str(number), killed_at=number)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            return
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise SystemExit(f"number {number} ended with {status}")
        # The same order again.
        left = {path.name for path in (folder / str(number)).rglob("*") if path.is_file()}
        sys.stdout.write(" ".join([str(number), *sorted(left)]) + "\n")
        again = os.fork()
        if again == 0:
            run(folder / str(number), killed_at=None)
            os._exit(0)
        _, status = os.waitpid(again, 0)
        if status:
            raise SystemExit(f"number {number} could not be written again: {status}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
