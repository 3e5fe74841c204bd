"""A loader for a worker whose engine asks for more memory than its process may have."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from headrace.runtime.ports import LoadedModel, Loader, StepResult
from headrace.runtime.testing import ScriptedDevice, ScriptedLoader
from headrace.runtime.testing.planned import WorkerModel

ROOM_BYTES = 1 << 28
ASKED_BYTES = 1 << 33
STEP = 5


def allocate() -> StepResult | None:
    """What MLX does on a CPU without room is no exception: the process gets a SIGSEGV."""
    import mlx.core as mx

    # The stream of this thread has to be there before memory is short.
    mx.eval(mx.ones((1,), stream=mx.cpu))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM_BYTES, used + ROOM_BYTES))
    mx.eval(mx.ones((ASKED_BYTES >> 22, 1 << 20), mx.float32, stream=mx.cpu))
    return None


def loader(blas_threads: int) -> Loader:
    def load(source: str, progress: Callable[[float], None]) -> LoadedModel:
        model = msgspec.json.decode(source, type=WorkerModel).scripted()
        model.at_step(STEP, allocate, kind="decode")
        return ScriptedLoader(model, device=ScriptedDevice(sleep=time.sleep))(model.id, progress)

    return load
