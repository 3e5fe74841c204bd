"""Scripted models and the loader that brings them into memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from headrace.actors.spec import Role
from headrace.runtime.contracts import ModelInfo
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.footprint import Footprint, KvGroup
from headrace.runtime.ports import LoadedModel
from headrace.runtime.readings import EmbeddingTraits
from headrace.runtime.testing.device import AllocationFailed, ScriptedDevice
from headrace.runtime.testing.hooks import Hook, Hooks, StepKind
from headrace.runtime.testing.script import Script, ScriptChoice, by_text
from headrace.runtime.testing.scripted import ScriptedEngine, Timings
from headrace.runtime.testing.tokens import ScriptedTokenizer


@attrs.define(kw_only=True)
class ScriptedModel:
    """All that is decided about one model before it is loaded, and the engines it has had.

    `scripts` gives a row its script by a piece of its prompt's text; `script_of` decides in
    their place where that is too little.
    """

    id: str = "scripted"
    scripts: Mapping[str, Script] = attrs.field(factory=dict)
    script_of: ScriptChoice | None = None
    tokenizer: ScriptedTokenizer = attrs.field(factory=ScriptedTokenizer)
    context_window: int = 4096
    weights_bytes: int = 100_000_000
    kv_bytes_per_token: int = 1000
    load_seconds: float = 1.0
    timings: Timings = attrs.field(factory=Timings)
    # Whether its engine computes pieces of prompts and decodes in one step.
    mixes: bool = False
    defaults: Mapping[str, Any] = attrs.field(factory=dict)
    # Of a model that was made for embeddings.
    embedding: EmbeddingTraits | None = None
    # Each load takes one from the front and fails with it, as long as there are any.
    load_failures: list[Exception] = attrs.field(factory=list)
    engines: list[ScriptedEngine] = attrs.field(factory=list, init=False)
    hooks: Hooks = attrs.field(factory=Hooks, init=False)

    @property
    def role(self) -> Role:
        return "primary" if self.embedding is None else "companion"

    @property
    def engine(self) -> ScriptedEngine:
        """The engine of the newest load."""
        if not self.engines:
            raise LookupError(f"{self.id} was never loaded")
        return self.engines[-1]

    def at_step(self, number: int, hook: Hook, *, kind: StepKind | None = None) -> None:
        """Call `hook` at the start of an engine step; see `Hooks.at_step`."""
        self.hooks.at_step(number, hook, kind=kind)

    def info(self) -> ModelInfo:
        return ModelInfo(
            id=self.id,
            context_window=self.context_window,
            vocab_size=self.tokenizer.vocab_size,
            weights_bytes=self.weights_bytes,
            kv_bytes_per_token=self.kv_bytes_per_token,
            fingerprint=f"fp_{hashlib.sha256(self.id.encode()).hexdigest()[:12]}",
            defaults=dict(self.defaults),
            model_type="scripted",
            dtype="none",
            footprint=Footprint((KvGroup(self.kv_bytes_per_token),)),
            embedding=self.embedding,
        )

    def open(self, device: ScriptedDevice) -> ScriptedEngine:
        """A new engine of this model. Raises `AllocationFailed` where the weights do not fit."""
        engine = ScriptedEngine(
            self.script_of or by_text(self.scripts, self.tokenizer),
            self.tokenizer,
            device,
            timings=self.timings,
            kv_bytes_per_token=self.kv_bytes_per_token,
            weights_bytes=self.weights_bytes,
            hooks=self.hooks,
            mixes=self.mixes,
        )
        self.engines.append(engine)
        return engine


class ScriptedLoader:
    """The `Loader` port over scripted models: a source is a model's id."""

    def __init__(self, *models: ScriptedModel, device: ScriptedDevice | None = None) -> None:
        self.device = device if device is not None else ScriptedDevice()
        self.models = {model.id: model for model in models or (ScriptedModel(),)}
        # Sources in the order of their loads, failed ones included.
        self.loads: list[str] = []

    def __call__(self, source: str, progress: Callable[[float], None]) -> LoadedModel:
        self.loads.append(source)
        model = self.models.get(source)
        if model is None:
            raise RequestError(Code.LOAD_FAILED, f"there is no scripted model {source!r}")
        progress(0.0)
        self.device.spend(model.load_seconds)
        if model.load_failures:
            raise model.load_failures.pop(0)
        try:
            engine = model.open(self.device)
        except AllocationFailed as error:
            raise RequestError(Code.LOAD_FAILED, str(error)) from error
        progress(1.0)
        return LoadedModel(model.info(), engine, model.tokenizer)

    @property
    def model(self) -> ScriptedModel:
        """The only model of a loader that has one."""
        (model,) = self.models.values()
        return model

    def engines(self) -> Iterable[ScriptedEngine]:
        """Every engine that was opened, closed ones included."""
        return (engine for model in self.models.values() for engine in model.engines)
