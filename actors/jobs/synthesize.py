"""Notes as a kind of job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from headrace.actors.jobs.job import Result
from headrace.actors.jobs.kind import JobContext, JobKind
from headrace.actors.notes.order import SynthesizeConfig
from headrace.actors.notes.planning import Change
from headrace.actors.notes.roots import Roots
from headrace.actors.notes.synthesis import Order, Synthesis
from headrace.runtime.settings import Settings
from headrace.runtime.thread import ThreadFactory

# What the job's own folder has: each file that is written, or would be.
OUTPUT = "changes.json"


class Synthesize(JobKind[SynthesizeConfig]):
    name = "synthesize"
    config = SynthesizeConfig

    def __init__(self, settings: Settings, threads: ThreadFactory) -> None:
        self._roots = roots_of(settings)
        self._threads = threads

    def check(self, config: SynthesizeConfig) -> None:
        self._roots.spot(config.folder)
        config.sources()

    async def run(self, context: JobContext[SynthesizeConfig]) -> Result:
        config = context.config
        order = Order(
            context.id,
            self._roots.spot(config.folder),
            config.sources(),
            config.model,
            config.dry_run,
            config.segment_tokens,
            config.segment_turns,
            config.answer_tokens,
        )
        outcome = await Synthesis(context.runtime, self._threads, context).run(order)
        listed = [_listed(change, with_text=config.dry_run) for change in outcome.changes]
        await context.write(OUTPUT, msgspec.json.format(msgspec.json.encode(listed)))
        return Result(OUTPUT, {"dry_run": config.dry_run, **outcome.summary()})


def _listed(change: Change, *, with_text: bool) -> dict[str, Any]:
    """The text of what has been written stands where it was written."""
    listed = {
        "path": change.path,
        "action": change.action,
        "bytes": len(change.text.encode()),
    }
    return listed | {"text": change.text} if with_text else listed


def roots_of(settings: Settings) -> Roots:
    others = tuple(Path(folder).expanduser().absolute() for folder in settings.memory_folders)
    return Roots(settings.home.absolute() / "memory", others)
