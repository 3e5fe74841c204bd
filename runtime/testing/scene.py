"""The stage of most stories: a runtime at rest, with its scripted model in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio.testing

from headrace.actors.runtime import Runtime
from headrace.runtime.settings import Settings
from headrace.runtime.testing.device import ScriptedDevice
from headrace.runtime.testing.leaks import Baseline
from headrace.runtime.testing.loader import ScriptedLoader, ScriptedModel
from headrace.runtime.testing.runtime import open_scripted
from headrace.runtime.testing.scripted import ScriptedEngine
from headrace.runtime.testing.story import Story


@attrs.define
class Scene:
    """`baseline` was taken before anything happened; steps of the engine count from 1 on."""

    runtime: Runtime
    loader: ScriptedLoader
    baseline: Baseline

    @property
    def device(self) -> ScriptedDevice:
        return self.loader.device

    @property
    def model(self) -> ScriptedModel:
        return self.loader.model

    @property
    def engine(self) -> ScriptedEngine:
        return self.model.engine

    def story(self, ticket: str | None = None) -> Story:
        """What happened, for assertions; of one ticket, or all of it."""
        return Story.of(self.runtime.trace, ticket)

    def trace(self) -> list[str]:
        """What happened, as lines: equal for equal choices."""
        return [str(event) for event in self.runtime.trace.events()]


@asynccontextmanager
async def open_scene(
    model: ScriptedModel | None = None,
    settings: Settings | None = None,
    *,
    memory_bytes: int | None = None,
) -> AsyncIterator[Scene]:
    loader = ScriptedLoader(model if model is not None else ScriptedModel())
    async with open_scripted(loader, settings, memory_bytes=memory_bytes) as runtime:
        await runtime.load(loader.model.id)
        await trio.testing.wait_all_tasks_blocked()
        yield Scene(runtime, loader, Baseline.of(runtime, loader.model.engines))
