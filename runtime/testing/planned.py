"""Scripted models for worker processes.

A worker shares no objects with its test, so what is decided about a model travels as text: it is
the source of the model's spec. Little is imported here, since each worker imports it anew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import attrs
import msgspec

from headrace.actors.spec import ModelSpec
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.ports import LoadedModel, Loader, StepResult
from headrace.runtime.testing.device import ScriptedDevice
from headrace.runtime.testing.loader import ScriptedLoader, ScriptedModel
from headrace.runtime.testing.script import Script
from headrace.runtime.testing.scripted import Timings

LOADER = "headrace.runtime.testing.planned:loader"
# A load that its test forgets ends all the same.
GATE_SECONDS = 300.0
LOOK_SECONDS = 0.01


@attrs.frozen(kw_only=True)
class WorkerModel:
    """A scripted model for a worker: a token each `decode_seconds`, without end.

    It says the alphabet, or `says` again and again. `raises_signal` is a signal that its process
    sends itself in decode step `signal_step` of each life, and `fails_at` a token at which its
    engine gives a row up; `loads` is False for one that cannot be loaded. Each load waits for the
    file `load_gate` to be there, if there is such a path.
    """

    id: str
    says: str | None = None
    load_seconds: float = 0.0
    decode_seconds: float = 0.02
    prefill_token_seconds: float = 0.0
    weights_bytes: int = 100_000_000
    kv_bytes_per_token: int = 1000
    raises_signal: int | None = None
    signal_step: int = 10
    fails_at: int | None = None
    loads: bool = True
    load_gate: str | None = None

    def spec(self) -> ModelSpec:
        source = msgspec.json.encode(attrs.asdict(self)).decode()
        return ModelSpec(self.id, source, self.weights_bytes)

    def scripted(self) -> ScriptedModel:
        script = Script(self.says, end=False, fail_at=self.fails_at)
        model = ScriptedModel(
            id=self.id,
            script_of=lambda spec: script,
            load_seconds=self.load_seconds,
            weights_bytes=self.weights_bytes,
            kv_bytes_per_token=self.kv_bytes_per_token,
            timings=Timings(self.prefill_token_seconds, self.decode_seconds),
        )
        if self.raises_signal is not None:
            model.at_step(self.signal_step, _raising_signal(self.raises_signal), kind="decode")
        if not self.loads:
            model.load_failures.append(RequestError(Code.LOAD_FAILED, "there are no weights"))
        return model


def _raising_signal(number: int) -> Callable[[], StepResult | None]:
    def hook() -> StepResult | None:
        os.kill(os.getpid(), number)
        return None

    return hook


def _wait_for(gate: str) -> None:
    deadline = time.monotonic() + GATE_SECONDS
    while not os.path.exists(gate):
        if time.monotonic() > deadline:
            raise RequestError(Code.LOAD_FAILED, f"nobody opened {gate}")
        time.sleep(LOOK_SECONDS)


def loader(blas_threads: int) -> Loader:
    """What a worker calls: a loader whose sources are `WorkerModel`s."""

    def load(source: str, progress: Callable[[float], None]) -> LoadedModel:
        plan = msgspec.json.decode(source, type=WorkerModel)
        if plan.load_gate is not None:
            _wait_for(plan.load_gate)
        model = plan.scripted()
        scripted = ScriptedLoader(model, device=ScriptedDevice(sleep=time.sleep))
        return scripted(model.id, progress)

    return load
