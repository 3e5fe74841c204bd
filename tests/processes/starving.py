"""A loader for a worker whose engine asks for more memory than its process may have, once the
file that STARVING_FILE names is there."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from headrace.runtime.ports import LoadedModel, Loader, StepResult
from headrace.runtime.testing import ScriptedDevice, ScriptedLoader
from headrace.runtime.testing.hooks import Hooks, StepKind
from headrace.runtime.testing.planned import WorkerModel

STARVING = "one"
ROOM_BYTES = 1 << 28
ASKED_BYTES = 1 << 33


class Starving(Hooks):
    def __init__(self, word: Path) -> None:
        super().__init__()
        self._word = word

    def fire(self, step: int, kind: StepKind, step_of_kind: int) -> StepResult | None:
        if self._word.exists():
            # The next life of the model is to be spared.
            self._word.unlink()
            allocate()
        return super().fire(step, kind, step_of_kind)


def allocate() -> None:
    """What MLX does on a CPU without room is no exception: the process gets a SIGSEGV."""
    import mlx.core as mx

    # The stream of this thread has to be there before memory is short.
    mx.eval(mx.ones((1,), stream=mx.cpu))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM_BYTES, used + ROOM_BYTES))
    mx.eval(mx.ones((ASKED_BYTES >> 22, 1 << 20), mx.float32, stream=mx.cpu))


def loader(blas_threads: int) -> Loader:
    def load(source: str, progress: Callable[[float], None]) -> LoadedModel:
        model = msgspec.json.decode(source, type=WorkerModel).scripted()
        if model.id == STARVING:
            model.hooks = Starving(Path(os.environ["STARVING_FILE"]))
        return ScriptedLoader(model, device=ScriptedDevice(sleep=time.sleep))(model.id, progress)

    return load
