"""GET /metrics: gauges and counters read from the runtime, histograms fed by its trace.

Each app has a registry of its own, so that several runtimes may live in one process. Labels hold
route patterns and ids of known models only: nothing a client makes up can multiply the series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from headrace.actors.reports import Statistics
from headrace.actors.runtime import Runtime
from headrace.http.exchange import Exchange
from headrace.http.models import RESIDENT
from headrace.http.wire.errors import condition
from headrace.runtime.trace import TraceEvent

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Seconds, from one decode step of a small model to a prompt that takes minutes.
LONG = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

# name: (help, buckets, the trace event, its field that feeds it and those that are labels)
HISTOGRAMS: dict[str, tuple[str, tuple[float, ...], str, str, tuple[str, ...]]] = {
    "headrace_ttft_seconds": ("To the first text", LONG, "request.first_text", "seconds", ()),
    "headrace_inter_token_seconds": ("Between texts", SHORT, "request.text_gap", "seconds", ()),
    "headrace_request_seconds": ("Whole requests", LONG, "request.ended", "seconds", ()),
    "headrace_queue_seconds": ("Wait for a row", LONG, "request.admitted", "queue_seconds", ()),
    "headrace_cancel_seconds": ("Cancel to free row", SHORT, "row.removed", "seconds", ()),
    "headrace_load_seconds": ("Loads of models", LONG, "model.loaded", "seconds", ("model",)),
}
# name: (help, the trace event, what its fields must hold to count)
COUNTERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "headrace_evictions": ("Models evicted", "model.leaving", {"reason": "evicted"}),
    "headrace_worker_restarts": ("Models started again", "worker.died", {"respawn": True}),
}


class Metrics:
    """The metrics of one app over one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._registry = CollectorRegistry()
        self._registry.register(_Snapshot(runtime.statistics))
        self._requests = Counter(
            "headrace_requests",
            "Answered requests",
            ["model", "route", "status", "outcome"],
            registry=self._registry,
        )
        self._errors = Counter(
            "headrace_errors", "Failures told to clients", ["type", "code"], registry=self._registry
        )
        self._feeds = self._listeners()
        runtime.trace.listen(self._on_event)

    def text(self) -> bytes:
        """The Prometheus text format, version 0.0.4."""
        return generate_latest(self._registry)

    def count(self, exchange: Exchange) -> None:
        """Count an exchange that is over."""
        model = exchange.work.model if exchange.work is not None else None
        known = {report.id for report in self._runtime.statistics().models}
        self._requests.labels(
            model if model in known else "", exchange.route, exchange.status, exchange.outcome
        ).inc()
        if exchange.error is not None:
            code = exchange.error.code.value
            self._errors.labels(condition(exchange.error).type, code).inc()

    def _listeners(self) -> dict[str, list[Callable[[TraceEvent], None]]]:
        feeds: dict[str, list[Callable[[TraceEvent], None]]] = {}
        for name, (text, buckets, event, field, labels) in HISTOGRAMS.items():
            histogram = Histogram(name, text, labels, buckets=buckets, registry=self._registry)
            feeds.setdefault(event, []).append(_observer(histogram, field, labels))
        for name, (text, event, wanted) in COUNTERS.items():
            counter = Counter(name, text, registry=self._registry)
            feeds.setdefault(event, []).append(_counting(counter, wanted))
        return feeds

    def _on_event(self, event: TraceEvent) -> None:
        for feed in self._feeds.get(event.name, ()):
            feed(event)


def _counting(counter: Counter, wanted: Mapping[str, Any]) -> Callable[[TraceEvent], None]:
    def count(event: TraceEvent) -> None:
        if wanted.items() <= event.fields.items():
            counter.inc()

    return count


def _observer(
    histogram: Histogram, field: str, labels: Sequence[str]
) -> Callable[[TraceEvent], None]:
    def observe(event: TraceEvent) -> None:
        seconds: Any = event.fields.get(field)
        if seconds is not None:
            values = [event.fields[label] for label in labels]
            (histogram.labels(*values) if values else histogram).observe(seconds)

    return observe


class _Snapshot(Collector):
    """Reads the runtime when somebody asks, so that a gauge can never be left standing."""

    def __init__(self, statistics: Callable[[], Statistics]) -> None:
        self._statistics = statistics

    def describe(self) -> Iterator[Metric]:
        """Registering must not need a runtime that is already open."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        now = self._statistics()
        resident = [model for model in now.models if model.state in RESIDENT]
        memories = [model.memory for model in resident if model.memory is not None]
        yield _gauge("requests_in_flight", "Requests being answered", now.requests_in_flight)
        yield _gauge("queue_depth", "Requests waiting for a row", now.queue_depth)
        yield _gauge("rows_running", "Rows in the generating batches", now.rows_running)
        yield _gauge("leases", "Leases on models", now.leases)
        yield _gauge("measured_bytes", "Bytes active", sum(m.active_bytes for m in memories))
        yield _gauge("worker_up", "Models that are loaded", len(resident))
        processes = sum(model.worker.pid is not None for model in now.models)
        yield _gauge("worker_processes", "Processes that run models", processes)
        yield _labelled(
            GaugeMetricFamily("headrace_ledger_bytes", "Bytes by use", labels=["kind"]),
            {
                "weights": now.ledger.weights_bytes,
                "kv": now.kv_bytes,
                "kv_reserved": now.ledger.reserved_bytes,
                "prefill": now.ledger.transient_bytes,
                "cache": now.ledger.cache_bytes,
            },
        )
        if now.ledger.limit_bytes is not None:
            ceiling = now.ledger.limit_bytes
            yield _gauge("ledger_ceiling_bytes", "Bytes that may be used", ceiling)
        hits = sum(model.cache.hits for model in now.models)
        yield _counter("prompt_cache_hits", "Prompts that began like a kept one", hits)
        misses = sum(model.cache.misses for model in now.models)
        yield _counter("prompt_cache_misses", "Prompts that did not", misses)
        tokens = {
            "prompt": now.prompt_tokens_total,
            "cached": now.cached_tokens_total,
            "decoded": now.decoded_tokens_total,
        }
        yield _labelled(CounterMetricFamily("headrace_tokens", "Tokens", labels=["kind"]), tokens)
        cancelled = CounterMetricFamily("headrace_cancelled", "Cancels", labels=["reason"])
        yield _labelled(cancelled, now.cancelled_total)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"headrace_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"headrace_{name}", text, value=value)


def _labelled(
    family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[Any, float]
) -> Metric:
    for label, value in values.items():
        family.add_metric([label], value)
    return family
