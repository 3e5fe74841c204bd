"""Reports of the models, put together from where each part is known."""

from __future__ import annotations

import attrs

from headrace.actors.host import Host
from headrace.actors.reports import BatchReport, ModelReport, WorkerReport
from headrace.actors.residence import Residence
from headrace.runtime.ports import CacheUse


def model_report(
    host: Host, residence: Residence | None, waiting_rows: int, max_rows: int
) -> ModelReport:
    """One model; `residence` is None before anybody asked for it."""
    report = ModelReport(
        host.id,
        "never_loaded",
        role=host.role,
        info=host.info or host.expected,
        batch=batch_report(host, waiting_rows, max_rows),
        cache=cache_report(host),
        worker=worker_report(host),
        decoding=host.decoding,
    )
    if residence is None:
        return report
    return attrs.evolve(
        report,
        state=residence.state,
        exhausted=residence.exhausted,
        bytes=residence.bytes,
        pinned=residence.pinned,
        leases=residence.leases,
        last_used_at=residence.last_used_at,
        memory=host.figures.memory,
    )


def batch_report(host: Host, waiting_rows: int, max_rows: int) -> BatchReport:
    figures, totals = host.figures, host.totals()
    return BatchReport(
        max_rows=max_rows,
        running_rows=figures.running_rows,
        waiting_rows=waiting_rows + figures.use.held_back,
        submitted_rows=totals.submitted_rows,
        finished_rows=totals.finished_rows,
        cancelled_rows=totals.cancelled_rows,
        kv_bytes=figures.kv_bytes,
    )


def cache_report(host: Host) -> CacheUse:
    totals = host.totals()
    return attrs.evolve(
        host.figures.cache,
        hits=totals.cache_hits,
        misses=totals.cache_misses,
        tokens_reused=totals.cached_tokens,
    )


def worker_report(host: Host) -> WorkerReport:
    ended = host.last_exit
    if ended is None:
        return WorkerReport(host.pid, host.restarts)
    return WorkerReport(host.pid, host.restarts, ended.code, ended.signal)
