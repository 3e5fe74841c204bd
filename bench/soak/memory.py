"""What a soaked server and its workers take, seen while they rest, and whether it stands still."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import attrs
from soak.processes import Process, children

MIB = 1 << 20


@attrs.frozen
class Sample:
    """Resident bytes at rest. `worker_pid` is the main model's worker, None without one."""

    at: float
    requests: int
    server_bytes: int
    worker_pid: int | None
    worker_bytes: int
    all_workers_bytes: int
    processes: int

    @classmethod
    async def of(cls, at: float, requests: int, server: int, worker: int | None) -> Sample:
        found = await children(server)
        workers = [process for process in found.values() if process.pid != server]
        main = found.get(worker or 0, Process(0, 0, 0))
        return cls(
            at=round(at, 1),
            requests=requests,
            server_bytes=found[server].resident_bytes,
            worker_pid=worker,
            worker_bytes=main.resident_bytes,
            all_workers_bytes=sum(process.resident_bytes for process in workers),
            processes=len(found),
        )


def growth(samples: Sequence[Sample]) -> dict[str, Any]:
    """Growth over the last half, in percent: the median of its second part against its first.

    The worker's is told for samples of one and the same process only.
    """
    half = samples[len(samples) // 2 :]
    pid = half[-1].worker_pid if half else None
    same = [sample for sample in half if sample.worker_pid == pid]
    return {
        "samples": len(half),
        "server_percent": _percent([sample.server_bytes for sample in half]),
        "worker_samples": len(same),
        "worker_percent": _percent([sample.worker_bytes for sample in same]),
    }


def _percent(values: Sequence[int]) -> float | None:
    """None with too few values for two parts."""
    if len(values) < 4:
        return None
    middle = len(values) // 2
    before, after = statistics.median(values[:middle]), statistics.median(values[middle:])
    return round(100 * (after - before) / before, 2) if before else None
