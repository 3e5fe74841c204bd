"""The kind of job that makes a model folder out of weights in another form."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import msgspec

from headrace.actors.jobs.child import run_model_program
from headrace.actors.jobs.job import Result
from headrace.actors.jobs.kind import JobContext, JobKind
from headrace.actors.library.converting import Recipe

MODULE = "headrace.actors.library.converting"


class ConvertConfig(Recipe, forbid_unknown_fields=True, kw_only=True):
    """`source` is a GGUF file, a folder, a hub id or the id of a model."""

    source: Annotated[str, msgspec.Meta(min_length=1)]

    def recipe(self) -> Recipe:
        return Recipe(self.bits, self.group_size, self.dtype, self.name)


class Convert(JobKind[ConvertConfig]):
    """To quantize takes the whole device: no row of any model runs meanwhile."""

    name = "convert"
    config = ConvertConfig

    def __init__(self, home: Path) -> None:
        self._home = home

    async def run(self, context: JobContext[ConvertConfig]) -> Result:
        config = context.config
        quantizes = config.bits is not None
        await context.stage("waiting" if quantizes else "converting", 0.0, config.source)
        recipe = msgspec.json.encode(config.recipe()).decode()
        command = [sys.executable, "-m", MODULE, config.source, str(self._home), recipe]
        async with context.runtime.whole_device() if quantizes else nullcontext():
            if quantizes:
                await context.stage("converting", 0.0, config.source)
            return await run_model_program(context, command)
