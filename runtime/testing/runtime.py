"""A whole runtime over scripted models, in one line."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import attrs

from headrace.actors.generation import Generation
from headrace.actors.provision import Provision
from headrace.actors.runtime import Runtime, open_runtime
from headrace.actors.spec import ModelSpec
from headrace.runtime.contracts import (
    Accepted,
    Delta,
    Event,
    Failed,
    Finished,
    InferenceRequest,
    Message,
    Prompt,
    Request,
    Sampling,
)
from headrace.runtime.errors import Code
from headrace.runtime.settings import Settings
from headrace.runtime.testing.inline import inline_threads
from headrace.runtime.testing.loader import ScriptedLoader
from headrace.runtime.thread import ThreadFactory


def open_scripted(
    loader: ScriptedLoader | None = None,
    settings: Settings | None = None,
    *,
    budget_bytes: int | None = None,
    memory_bytes: int | None = None,
    threads: ThreadFactory | None = None,
) -> AbstractAsyncContextManager[Runtime]:
    """A runtime of the loader's models, on the loader's device.

    Without `threads` there is no thread: use it on a virtual clock, on which loads, steps and
    hangs take the device's seconds. Without `budget_bytes` all models fit at once, and without
    `memory_bytes` all their rows.
    """
    loader = loader if loader is not None else ScriptedLoader()
    specs = [
        ModelSpec(model.id, model.id, model.weights_bytes, role=model.role)
        for model in loader.models.values()
    ]
    if budget_bytes is None:
        budget_bytes = sum(spec.estimate_bytes for spec in specs)
    return open_runtime(
        settings if settings is not None else Settings(),
        provision=Provision(tuple(specs), loader, budget_bytes, memory_bytes=memory_bytes),
        threads=threads if threads is not None else inline_threads(loader.device),
    )


@attrs.frozen
class Answer:
    """Everything that one request brought, as its reader saw it."""

    events: tuple[Event, ...]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, Delta))

    @property
    def accepted(self) -> Accepted:
        """Its first event; there is none where the request was refused."""
        first = self.events[0]
        assert isinstance(first, Accepted), f"it was refused: {first}"
        return first

    @property
    def end(self) -> Finished | Failed:
        """The last event; a stream has exactly one end, and nothing follows it."""
        ends = [event for event in self.events if isinstance(event, Finished | Failed)]
        assert len(ends) == 1, f"a stream with {len(ends)} ends: {self.events}"
        assert self.events[-1] is ends[0], f"events after the end: {self.events}"
        return ends[0]

    @property
    def code(self) -> Code | None:
        """The error that ended it; None for a proper end."""
        return self.end.error.code if isinstance(self.end, Failed) else None


async def read_all(generation: Generation) -> Answer:
    """Read a live request to its end."""
    return Answer(tuple([event async for event in generation]))


async def ask(runtime: Runtime, request: Request) -> Answer:
    """One request from beginning to end, as a scope of its own."""
    async with runtime.request(request) as generation:
        return await read_all(generation)


def asking(
    text: str,
    *,
    id: str | None = None,
    model: str | None = None,
    max_tokens: int | None = None,
    stop: tuple[str, ...] = (),
    stream: bool = True,
) -> InferenceRequest:
    """A greedy request whose prompt is one user message; its id is the text unless given."""
    return InferenceRequest(
        id=id if id is not None else text,
        model=model,
        prompt=Prompt(messages=(Message("user", text),)),
        sampling=Sampling(seed=0, temperature=0.0),
        max_tokens=max_tokens,
        stop=stop,
        stream=stream,
        route="test",
    )
