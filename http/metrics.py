"""GET /metrics: gauges and counters read from the runtime, histograms fed by its trace.

Each app has a registry of its own, so that several runtimes may live in one process. Labels hold
route patterns and ids of known models only: nothing a client makes up can multiply the series.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from headrace.actors.reports import Statistics
from headrace.actors.runtime import Runtime
from headrace.http.exchange import Exchange
from headrace.http.heads import Refusal
from headrace.http.models import RESIDENT
from headrace.http.wire.errors import condition
from headrace.runtime.errors import ErrorInfo
from headrace.runtime.trace import TraceEvent

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Seconds, from one decode step of a small model to a prompt that takes minutes.
LONG = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

# name: (help, buckets, the trace event, its field that feeds it)
HISTOGRAMS: dict[str, tuple[str, tuple[float, ...], str, str]] = {
    "headrace_ttft_seconds": (
        "From a request to its first text",
        LONG,
        "request.first_text",
        "seconds",
    ),
    "headrace_inter_token_seconds": (
        "From one text of a row to its next",
        SHORT,
        "request.text_gap",
        "seconds",
    ),
    "headrace_request_seconds": (
        "From a request to the end of all it held",
        LONG,
        "request.ended",
        "seconds",
    ),
    "headrace_queue_seconds": (
        "From a request to its row, loads and waits for memory included",
        LONG,
        "request.admitted",
        "queue_seconds",
    ),
    "headrace_cancel_seconds": (
        "From a cancel to a row that is gone",
        SHORT,
        "row.removed",
        "seconds",
    ),
    "headrace_load_seconds": ("Loads of models", LONG, "model.loaded", "seconds"),
}
# name: (help, the trace event, what its fields must hold to count)
COUNTERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "headrace_evictions": (
        "Models that made room for others",
        "model.leaving",
        {"reason": "evicted"},
    ),
    "headrace_worker_restarts": (
        "Starts of models that had died",
        "worker.died",
        {"respawn": True},
    ),
}


class Metrics:
    """The metrics of one app over one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._registry = CollectorRegistry()
        self._registry.register(_Snapshot(runtime.statistics, lambda: self._reasoning_tokens))
        # Memory, processor time and open files of the server itself, where the system tells.
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "headrace_requests",
            "Answered requests",
            ["model", "route", "status", "outcome"],
            registry=self._registry,
        )
        self._errors = Counter(
            "headrace_errors", "Failures told to clients", ["type", "code"], registry=self._registry
        )
        # Of requests that have ended; workers do not tell thoughts from other tokens.
        self._reasoning_tokens = 0
        self._feeds = self._listeners()
        runtime.trace.listen(self._on_event)

    def text(self) -> bytes:
        """The Prometheus text format, version 0.0.4."""
        return generate_latest(self._registry)

    def count(self, exchange: Exchange) -> None:
        """Count an exchange that is over."""
        model = self._known(exchange.work.model if exchange.work is not None else None)
        self._requests.labels(model, exchange.route, exchange.status, exchange.outcome).inc()
        if exchange.error is not None:
            self._count_error(exchange.error)

    def count_refusal(self, refusal: Refusal) -> None:
        """Count what was refused before it became an exchange."""
        self._requests.labels("", "", refusal.status, "refused").inc()
        self._count_error(refusal.info)

    def _count_error(self, info: ErrorInfo) -> None:
        self._errors.labels(condition(info).type, info.code.value).inc()

    def _known(self, model: str | None) -> str:
        """A model's id as a label: one that a client has made up is none."""
        return model if model is not None and model in self._runtime.registry.ids else ""

    def _listeners(self) -> dict[str, list[Callable[[TraceEvent], None]]]:
        feeds: dict[str, list[Callable[[TraceEvent], None]]] = {}
        for name, (text, buckets, event, field) in HISTOGRAMS.items():
            histogram = Histogram(name, text, ["model"], buckets=buckets, registry=self._registry)
            feeds.setdefault(event, []).append(self._observer(histogram, field))
        for name, (text, event, wanted) in COUNTERS.items():
            counter = Counter(name, text, registry=self._registry)
            feeds.setdefault(event, []).append(_counting(counter, wanted))
        return feeds

    def _observer(self, histogram: Histogram, field: str) -> Callable[[TraceEvent], None]:
        def observe(event: TraceEvent) -> None:
            seconds: Any = event.fields.get(field)
            if seconds is not None:
                histogram.labels(self._known(event.fields.get("model"))).observe(seconds)

        return observe

    def _on_event(self, event: TraceEvent) -> None:
        if event.name == "request.ended":
            self._reasoning_tokens += event.fields["reasoning_tokens"]
        for feed in self._feeds.get(event.name, ()):
            feed(event)


def _counting(counter: Counter, wanted: Mapping[str, Any]) -> Callable[[TraceEvent], None]:
    def count(event: TraceEvent) -> None:
        if wanted.items() <= event.fields.items():
            counter.inc()

    return count


class _Snapshot(Collector):
    """Reads the runtime when somebody asks, so that a gauge can never be left standing."""

    def __init__(
        self, statistics: Callable[[], Statistics], reasoning_tokens: Callable[[], int]
    ) -> None:
        self._statistics = statistics
        self._reasoning_tokens = reasoning_tokens

    def describe(self) -> Iterator[Metric]:
        """Registering must not need a runtime that is already open."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        now = self._statistics()
        yield from _requests(now)
        yield from _models(now)
        yield from _memory(now)
        tokens = {
            "prompt": now.prompt_tokens_total,
            "cached": now.cached_tokens_total,
            "decoded": now.decoded_tokens_total,
            "reasoning": self._reasoning_tokens(),
        }
        yield _counters("tokens", "Tokens read, found ready, generated and thought", "kind", tokens)


def _requests(now: Statistics) -> Iterator[Metric]:
    yield _gauge("requests_in_flight", "Requests being answered", now.requests_in_flight)
    yield _gauge("queue_depth", "Requests waiting for a row", now.queue_depth)
    yield _gauge("rows_running", "Rows in the generating batches", now.rows_running)
    yield _gauge("leases", "Leases on models", now.leases)
    reasons = "Requests that were ended before their answer was complete"
    yield _counters("cancelled", reasons, "reason", now.cancelled_total)


def _models(now: Statistics) -> Iterator[Metric]:
    resident = sum(model.state in RESIDENT for model in now.models)
    yield _gauge("worker_up", "Models that are loaded", resident)
    processes = sum(model.worker.pid is not None for model in now.models)
    yield _gauge("worker_processes", "Processes that run models", processes)
    hits = sum(model.cache.hits for model in now.models)
    yield _counter("prompt_cache_hits", "Prompts that began like a kept one", hits)
    misses = sum(model.cache.misses for model in now.models)
    yield _counter("prompt_cache_misses", "Prompts that did not", misses)


def _memory(now: Statistics) -> Iterator[Metric]:
    ledger = now.ledger
    uses = GaugeMetricFamily("headrace_ledger_bytes", "Bytes by use", labels=["kind"])
    yield _labelled(
        uses,
        {
            "weights": ledger.weights_bytes,
            "kv": now.kv_bytes,
            "kv_reserved": ledger.reserved_bytes,
            "prefill": ledger.transient_bytes,
            "cache": ledger.cache_bytes,
        },
    )
    ceiling = math.inf if ledger.limit_bytes is None else ledger.limit_bytes
    yield _gauge("ledger_ceiling_bytes", "Bytes that may be used", ceiling)
    resident = (model.memory for model in now.models if model.state in RESIDENT)
    measured = sum(memory.active_bytes for memory in resident if memory is not None)
    yield _gauge("measured_bytes", "Bytes in use as the devices tell it", measured)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"headrace_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"headrace_{name}", text, value=value)


def _counters(name: str, text: str, label: str, values: Mapping[Any, float]) -> Metric:
    return _labelled(CounterMetricFamily(f"headrace_{name}", text, labels=[label]), values)


def _labelled(
    family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[Any, float]
) -> Metric:
    for label, value in values.items():
        family.add_metric([label], value)
    return family
