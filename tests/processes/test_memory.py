"""An allocation that fails: the whole process is gone, and it must be the worker's."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from headrace.runtime.testing.planned import WorkerModel
from headrace.runtime.testing.site import chat
from headrace.runtime.testing.workers import open_workers


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on the address space")
async def test_an_allocation_that_fails_costs_the_streams_of_its_model_only_b7(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    async with open_workers(WorkerModel(id="a"), worker_loader="starving:loader") as site:
        reply = await site.call(chat(stream=True))
        assert reply.status == 200
        assert len(reply.text) == 4
        assert sum('"error"' in frame for frame in reply.frames) == 1
        assert '"code":"engine_unavailable"' in reply.frames[-1]
        assert site.model("a").worker.exit_signal in (signal.SIGSEGV, signal.SIGABRT)
        await site.ready("a")
        await site.idle(within=5.0)
