"""What the routes for operators say (wire contract 13). Pure: snapshots in, JSON out."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from headrace.actors.history_store import Usage
from headrace.actors.reports import ModelReport, RequestReport, Statistics
from headrace.http.models import RESIDENT, STATES
from headrace.runtime.settings import Settings
from headrace.runtime.trace import TraceEvent

ENGINE_STATES = {
    "loading": "starting",
    "ready": "ready",
    "draining": "closed",
    "restarting": "restarting",
    "crashed": "restarting",
}
VERSION = importlib.metadata.version("headrace")


def health(statistics: Statistics) -> tuple[int, dict[str, Any]]:
    """Status and body of /health: whether it makes sense to send work here."""
    current = next((m for m in statistics.models if m.id == statistics.current), None)
    status = _health_status(statistics, current)
    body = {
        "status": status,
        "model": statistics.current,
        "state": "none" if current is None else STATES[current.state][0],
        "workers": [{"id": m.id, "state": STATES[m.state][0]} for m in _resident(statistics)],
    }
    return (200 if status in ("ok", "degraded") else 503), body


def _health_status(statistics: Statistics, current: ModelReport | None) -> str:
    if statistics.draining:
        return "draining"
    if current is not None and current.state in ("load_failed", "crashed"):
        return "unhealthy"
    troubled = ("restarting", "crashed", "load_failed")
    return "degraded" if any(m.state in troubled for m in statistics.models) else "ok"


def engine(statistics: Statistics) -> dict[str, Any]:
    """Body of /engine: what runs the models. The top level is the current model's worker."""
    current = next((m for m in statistics.models if m.id == statistics.current), None)
    workers = [_worker(model) for model in statistics.models if engine_state(model) != "none"]
    top = {
        "state": "none" if current is None else engine_state(current),
        "pid": None if current is None else current.worker.pid,
        "restarts": 0 if current is None else current.worker.restarts,
        "model": statistics.current,
        "last_exit": None if current is None else _last_exit(current),
    }
    return top | {"workers": workers}


def response_store(usage: Usage, settings: Settings) -> dict[str, Any]:
    """What is kept of responses, in /engine and /stats."""
    return {
        "entries": usage.entries,
        "bytes": usage.bytes,
        "max_bytes": settings.responses_store_bytes,
        "ttl_ms": round(settings.responses_ttl_s * 1000),
    }


def engine_state(model: ModelReport) -> str:
    """The word of wire contract 2.4 for what runs a model."""
    if model.exhausted:
        return "exhausted"
    return ENGINE_STATES.get(model.state, "none")


def _worker(model: ModelReport) -> dict[str, Any]:
    return {
        "id": model.id,
        "role": model.role,
        "pid": model.worker.pid,
        "state": engine_state(model),
        "state_reason": STATES[model.state][1],
        "restarts": model.worker.restarts,
        "last_exit": _last_exit(model),
        "memory": None if model.memory is None else attrs.asdict(model.memory),
    }


def _last_exit(model: ModelReport) -> dict[str, int | None] | None:
    code, signal = model.worker.exit_code, model.worker.exit_signal
    return None if code is None and signal is None else {"code": code, "signal": signal}


def drained(in_flight: int, waited_seconds: float, timed_out: bool) -> dict[str, Any]:
    return {
        "drained": in_flight == 0,
        "in_flight": in_flight,
        "waited_ms": round(waited_seconds * 1000),
        "timed_out": timed_out,
    }


def server(started_at: float, settings: dict[str, Any]) -> dict[str, Any]:
    """`started_at` is in Unix seconds; it is shown as RFC 3339 in UTC."""
    started = datetime.fromtimestamp(started_at, UTC)
    shown = started.isoformat(timespec="milliseconds")
    return {"version": VERSION, "started_at": shown, "settings": settings}


def stats(statistics: Statistics, server: dict[str, Any]) -> dict[str, Any]:
    resident = _resident(statistics)
    memories = [model.memory for model in resident if model.memory is not None]
    return {
        "server": server | {"draining": statistics.draining},
        "requests": {
            "in_flight": statistics.requests_in_flight,
            "queue_depth": statistics.queue_depth,
            "rows_running": statistics.rows_running,
            "leases": statistics.leases,
            "cancelled": dict(statistics.cancelled_total),
        },
        "tokens": tokens(statistics),
        "models": {
            "current": statistics.current,
            "budget_bytes": statistics.budget_bytes,
            "resident_bytes": sum(model.bytes for model in resident),
            "resident": [_resident_row(model) for model in resident],
        },
        "ledger": _ledger(statistics)
        | {"measured_bytes": sum(memory.active_bytes for memory in memories)},
        "admission": {model.id: _admission(model) for model in resident},
        "batch": {model.id: attrs.asdict(model.batch) for model in statistics.models},
        "prompt_cache": {model.id: attrs.asdict(model.cache) for model in statistics.models},
    }


def tokens(statistics: Statistics) -> dict[str, int]:
    return {
        "prompt": statistics.prompt_tokens_total,
        "cached": statistics.cached_tokens_total,
        "decoded": statistics.decoded_tokens_total,
    }


def _resident(statistics: Statistics) -> list[ModelReport]:
    return [model for model in statistics.models if model.state in RESIDENT]


def _resident_row(model: ModelReport) -> dict[str, Any]:
    return {
        "id": model.id,
        "state": STATES[model.state][0],
        "bytes": model.bytes,
        "pinned": model.pinned,
        "leases": model.leases,
        "last_used_at": model.last_used_at,
        "memory": None if model.memory is None else attrs.asdict(model.memory),
    }


def _ledger(statistics: Statistics) -> dict[str, Any]:
    ledger = statistics.ledger
    return {
        "ceiling_bytes": ledger.limit_bytes,
        "weights_bytes": ledger.weights_bytes,
        "kv_bytes": statistics.kv_bytes,
        "kv_reserved_bytes": ledger.reserved_bytes,
        "prefill_bytes": ledger.transient_bytes,
        "cache_bytes": ledger.cache_bytes,
        "allotted_bytes": ledger.allotted_bytes,
        "held_back": ledger.held_back,
    }


def _admission(model: ModelReport) -> dict[str, Any]:
    window = None if model.info is None else model.info.context_window
    return {
        "context_window": window,
        "max_safe_context": model.safe_context,
        "limit_tokens": model.safe_context,
    }


def requests(
    reports: Iterable[RequestReport], response_id: Callable[[str], str | None]
) -> dict[str, Any]:
    """The live requests; never any text of theirs."""
    data = [
        {
            "id": report.id,
            "response_id": response_id(report.id),
            "route": report.route,
            "model": report.model,
            "state": report.stage,
            "age_ms": round(report.age_seconds * 1000),
            "prompt_tokens": report.prompt_tokens,
            "generated_tokens": report.generated_tokens,
            "stream": report.stream,
        }
        for report in reports
        if report.stage != "ended"
    ]
    return {"object": "list", "data": data}


def trace(events: Sequence[TraceEvent], limit: int) -> dict[str, Any]:
    """The newest events, oldest first. `request_id` is null where no request is concerned, or
    where one began before the oldest event that is kept."""
    newest = events[-limit:] if limit else []
    ids = {event.ticket: event.fields["id"] for event in events if event.name == "request.accepted"}
    data = [attrs.asdict(event) | {"request_id": ids.get(event.ticket)} for event in newest]
    return {"object": "list", "data": data}


def about(
    current: str | None, endpoints: Iterable[tuple[str, str]], job_kinds: Iterable[str]
) -> dict[str, Any]:
    return {
        "name": "headrace",
        "version": VERSION,
        "model": current,
        "endpoints": [{"method": method, "path": _shown(path)} for method, path in endpoints],
        "job_kinds": sorted(job_kinds),
    }


def _shown(pattern: str) -> str:
    """A path pattern as people write it: `<path:model_id>` is `{model_id}`."""
    return pattern.replace("<path:", "{").replace("<", "{").replace(">", "}")
