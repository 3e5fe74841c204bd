"""What the live view shows: the runtime at one instant, and the rows that have just ended.

Never any text of a request: names, states and counts only.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from headrace.actors.reports import ModelReport, RequestReport, Statistics
from headrace.actors.runtime import Runtime
from headrace.http.models import RESIDENT, STATES
from headrace.http.operations import tokens
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.trace import TraceEvent

# How long an ended row is told of: many snapshots, so that nobody who looks misses it.
ENDED_SECONDS = 5.0
MOST_ENDED = 64
# Rows that one snapshot tells of; the oldest come first.
MOST_ROWS = 64
MOST_WATCHERS = 32
CROWDED = "Too many look at the live view already."


@attrs.frozen
class Ending:
    """How a row ended; `freed_seconds` is from its cancellation to the end of all it held."""

    ticket: str
    at: float
    model: str | None
    outcome: str
    reason: str | None
    prompt_tokens: int
    generated_tokens: int
    freed_seconds: float | None


class Watch:
    """Takes notice of what a single look would miss: ends, and steps."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._watchers = 0
        # Steps of each model's engine since the start.
        self._steps: Counter[str] = Counter()
        # What is known of rows that have not ended, by ticket.
        self._admitted: dict[str, tuple[str, int]] = {}
        self._freed: dict[str, float] = {}
        self._ended: deque[Ending] = deque(maxlen=MOST_ENDED)
        runtime.trace.listen(self._on_event)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A place for one who looks. Raises `RequestError` where there is none left."""
        if self._watchers == MOST_WATCHERS:
            raise RequestError(Code.QUEUE_FULL, CROWDED, retry_after_seconds=5.0)
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1

    @property
    def over(self) -> bool:
        """Nothing more will happen here: newcomers are refused, and nobody else is left."""
        drained = self._runtime.draining and not self._runtime.requests()
        return drained or self._runtime.closed

    def snapshot(self, now: float) -> dict[str, Any]:
        """`now` is in seconds on the run's clock."""
        while self._ended and now - self._ended[0].at > ENDED_SECONDS:
            self._ended.popleft()
        statistics, requests = self._runtime.statistics(), self._runtime.requests()
        return {
            "at": round(now, 3),
            **_totals(statistics),
            "models": [_model(model, self._steps[model.id]) for model in statistics.models],
            "rows": [_row(report) for report in requests[:MOST_ROWS]],
            "rows_left_out": max(0, len(requests) - MOST_ROWS),
            "ended": [_ended(ending, now) for ending in self._ended],
        }

    def _on_event(self, event: TraceEvent) -> None:
        match event.name:
            case "step":
                self._steps[event.fields["model"]] += 1
            case "request.admitted":
                known = event.fields["model"], event.fields["prompt_tokens"]
                self._admitted[event.ticket] = known
            case "row.removed":
                self._freed[event.ticket] = event.fields["seconds"]
            case "request.ended":
                self._end(event)

    def _end(self, event: TraceEvent) -> None:
        model, prompt_tokens = self._admitted.pop(event.ticket, (None, 0))
        freed_seconds = self._freed.pop(event.ticket, None)
        self._ended.append(
            Ending(
                event.ticket,
                event.at,
                model,
                event.fields["outcome"],
                event.fields["reason"],
                prompt_tokens,
                event.fields["completion_tokens"],
                freed_seconds,
            )
        )

    def __repr__(self) -> str:
        return f"<Watch {self._watchers} watchers, {len(self._ended)} ended>"


def _totals(statistics: Statistics) -> dict[str, Any]:
    ledger = statistics.ledger
    resident = (model for model in statistics.models if model.state in RESIDENT)
    return {
        "draining": statistics.draining,
        "current": statistics.current,
        "queue_depth": statistics.queue_depth,
        "rows_running": statistics.rows_running,
        "tokens": tokens(statistics),
        "memory": {
            "budget_bytes": statistics.budget_bytes,
            "ceiling_bytes": ledger.limit_bytes,
            "weights_bytes": sum(model.bytes for model in resident),
            "kv_bytes": statistics.kv_bytes,
            "reserved_bytes": ledger.reserved_bytes,
            "cache_bytes": ledger.cache_bytes,
        },
    }


def _model(model: ModelReport, steps: int) -> dict[str, Any]:
    return {
        "id": model.id,
        "state": STATES[model.state][0],
        "role": model.role,
        "bytes": model.bytes,
        "pinned": model.pinned,
        "leases": model.leases,
        "running_rows": model.batch.running_rows,
        "waiting_rows": model.batch.waiting_rows,
        "max_rows": model.batch.max_rows,
        "steps": steps,
    }


def _row(report: RequestReport) -> dict[str, Any]:
    return {
        "ticket": report.ticket,
        "id": report.id,
        "route": report.route,
        "model": report.model,
        "state": report.stage,
        "age_ms": round(report.age_seconds * 1000),
        "prompt_tokens": report.prompt_tokens,
        "generated_tokens": report.generated_tokens,
        "most_tokens": report.most_tokens,
        "rows": report.rows,
    }


def _ended(ending: Ending, now: float) -> dict[str, Any]:
    freed = ending.freed_seconds
    return {
        "ticket": ending.ticket,
        "model": ending.model,
        "outcome": ending.outcome,
        "reason": ending.reason,
        "prompt_tokens": ending.prompt_tokens,
        "generated_tokens": ending.generated_tokens,
        "ago_ms": round((now - ending.at) * 1000),
        "freed_ms": None if freed is None else round(freed * 1000, 1),
    }
