"""Spans by OpenTelemetry: one for a request, and below it one for each of its stages.

Imported only where the setting `otel` is on; the extra `headrace[otel]` brings what is needed.
Spans hold names, numbers and ids, never any text.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import attrs
import trio
from opentelemetry import trace as otel
from opentelemetry.context import Context, get_current
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from headrace.http.exchange import Exchange
from headrace.http.operations import VERSION
from headrace.runtime.cleanup import bounded_cleanup
from headrace.runtime.trace import Trace, TraceEvent

# For spans that have not been sent when the server ends.
FLUSH_SECONDS = 5.0
CONTEXT_HEADERS = ("traceparent", "tracestate")
# From a request's stage to the name of its span; `queued` is also the wait for a row's memory.
STAGES = {"queued": "queue", "loading": "load"}


@attrs.define
class _Running:
    """The stages of one request: where their spans belong, and the one that is open."""

    parent: Context
    stage: otel.Span


class Spans:
    """Makes the spans of one server's requests, from what its trace tells."""

    def __init__(self, provider: otel.TracerProvider, trace: Trace) -> None:
        self._tracer = provider.get_tracer("headrace", VERSION)
        self._incoming = TraceContextTextMapPropagator()
        self._running: dict[str, _Running] = {}
        trace.listen(self._on_event)

    @contextmanager
    def exchange(self, exchange: Exchange) -> Iterator[None]:
        """The span of one exchange, below its client's where it names one."""
        sent = {name: exchange.header(name) or "" for name in CONTEXT_HEADERS}
        attributes = {
            "http.request.method": exchange.method,
            "headrace.request_id": exchange.id,
        }
        with self._tracer.start_as_current_span(
            exchange.method,
            self._incoming.extract(sent),
            otel.SpanKind.SERVER,
            attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            finally:
                _close(span, exchange)

    def _on_event(self, event: TraceEvent) -> None:
        # In the task of the request, so that what is current is its exchange's span.
        if event.name == "request.accepted":
            if otel.get_current_span().get_span_context().is_valid:
                parent = get_current()
                self._running[event.ticket] = _Running(parent, self._begin("queue", parent))
        elif (running := self._running.get(event.ticket)) is not None:
            self._follow(running, event)

    def _follow(self, running: _Running, event: TraceEvent) -> None:
        match event.name:
            case "request.stage":
                self._next(running, STAGES[event.fields["stage"]])
            case "request.admitted":
                self._next(running, "prefill")
                running.stage.set_attributes(
                    {
                        "gen_ai.response.model": event.fields["model"],
                        "gen_ai.usage.input_tokens": event.fields["prompt_tokens"],
                    }
                )
            case "request.first_text":
                self._next(running, "decode")
            case "request.ended":
                del self._running[event.ticket]
                tokens = event.fields["completion_tokens"]
                running.stage.set_attribute("gen_ai.usage.output_tokens", tokens)
                running.stage.set_attribute("headrace.outcome", event.fields["outcome"])
                running.stage.end()

    def _next(self, running: _Running, name: str) -> None:
        running.stage.end()
        running.stage = self._begin(name, running.parent)

    def _begin(self, name: str, parent: Context) -> otel.Span:
        return self._tracer.start_span(name, parent)

    def __repr__(self) -> str:
        return f"<Spans of {len(self._running)} requests>"


def _close(span: otel.Span, exchange: Exchange) -> None:
    span.update_name(f"{exchange.method} {exchange.route}".rstrip())
    span.set_attribute("http.route", exchange.route)
    span.set_attribute("headrace.outcome", exchange.outcome)
    if exchange.status is not None:
        span.set_attribute("http.response.status_code", exchange.status)
    if exchange.error is not None:
        span.set_attribute("error.type", exchange.error.code.value)
    if exchange.outcome == "error":
        span.set_status(otel.StatusCode.ERROR)


@asynccontextmanager
async def exported(trace: Trace) -> AsyncIterator[Spans]:
    """Spans that are sent where the variables of OpenTelemetry say, from a thread of its own."""
    provider = TracerProvider(resource=Resource.create(_named(os.environ)))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield Spans(provider, trace)
    finally:
        with bounded_cleanup(FLUSH_SECONDS):
            await trio.to_thread.run_sync(provider.shutdown, abandon_on_cancel=True)


def _named(environ: Mapping[str, str]) -> dict[str, str]:
    """What the server is called, unless its operator has said so."""
    others = environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    named = environ.get("OTEL_SERVICE_NAME") or "service.name" in others
    return {"service.version": VERSION} | ({} if named else {"service.name": "headrace"})
