"""The kind of job that brings a model onto this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec

from headrace.actors.jobs.child import run_model_program
from headrace.actors.jobs.job import Result
from headrace.actors.jobs.kind import JobContext, JobKind
from headrace.actors.library.table import DEFAULT_MODEL

MODULE = "headrace.actors.library.fetching"


class PullConfig(msgspec.Struct, forbid_unknown_fields=True):
    """A hub id, the id of a registry model, a folder, or a GGUF file; none: the default model."""

    model: Annotated[str, msgspec.Meta(min_length=1)] = DEFAULT_MODEL


class Pull(JobKind[PullConfig]):
    """What is there already is left as it is. A model is there whole or not at all."""

    name = "pull"
    config = PullConfig

    def __init__(self, home: Path) -> None:
        self._home = home

    async def run(self, context: JobContext[PullConfig]) -> Result:
        source = context.config.model
        await context.stage("fetching", 0.0, source)
        command = [sys.executable, "-m", MODULE, source, str(self._home)]
        return await run_model_program(context, command)
