"""Spans by OpenTelemetry, as an exporter gets them."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from headrace.http.serve import serve_runtime
from headrace.http.spans import Spans
from headrace.http.telemetry import check_telemetry
from headrace.runtime.errors import SettingError
from headrace.runtime.settings import Settings
from headrace.runtime.testing import Script, ScriptedModel
from headrace.runtime.testing.leaks import Baseline
from headrace.runtime.testing.scene import open_scene
from headrace.runtime.testing.site import CHAT, Served, chat, http

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@attrs.define(kw_only=True)
class Watched(Served):
    exporter: InMemorySpanExporter
    spans: Spans

    async def told(self, count: int) -> list[ReadableSpan]:
        """The spans, in the order in which they began, once there are so many."""
        await self.until(lambda: len(self.exporter.get_finished_spans()) >= count)
        assert repr(self.spans) == "<Spans of 0 requests>"
        found = self.exporter.get_finished_spans()
        assert len(found) == count, [span.name for span in found]
        return sorted(found, key=lambda span: span.start_time or 0)


@asynccontextmanager
async def watched_site(model: ScriptedModel | None = None) -> AsyncIterator[Watched]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    model = model if model is not None else ScriptedModel(load_seconds=0)
    async with open_scene(model, Settings(port=0)) as scene, trio.open_nursery() as nursery:
        spans = Spans(provider, scene.runtime.trace)
        server = await nursery.start(partial(serve_runtime, scene.runtime, spans=spans))
        baseline = Baseline.of(scene.runtime, scene.model.engines)
        yield Watched(server=server, baseline=baseline, exporter=exporter, spans=spans)
        nursery.cancel_scope.cancel()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_request_is_a_span_with_its_stages_below_it() -> None:
    async with watched_site() as site:
        request = chat("private words", stream=True, max_tokens=5)
        head = f"X-Request-ID: mine\r\ntraceparent: {PARENT}\r\nHost:".encode()
        await site.call(request.replace(b"Host:", head, 1))
        whole, *stages = await site.told(6)
        assert (whole.name, whole.kind) == (f"POST {CHAT}", SpanKind.SERVER)
        # It belongs to what its client was doing.
        assert whole.parent is not None
        assert format(whole.context.trace_id, "032x") == TRACE
        assert format(whole.parent.span_id, "016x") == PARENT.split("-")[2]
        assert attributes(whole) == {
            "http.request.method": "POST",
            "http.route": CHAT,
            "http.response.status_code": 200,
            "headrace.request_id": "mine",
            "headrace.outcome": "ok",
        }
        assert [stage.name for stage in stages] == ["queue", "load", "queue", "prefill", "decode"]
        for stage in stages:
            assert stage.parent is not None
            assert stage.parent.span_id == whole.context.span_id
        # One ends where the next begins, and none outlives the request.
        for stage, following in itertools.pairwise(stages):
            assert stage.end_time is not None
            assert following.start_time is not None
            assert stage.end_time <= following.start_time
        assert stages[-1].end_time is not None
        assert whole.end_time is not None
        assert stages[-1].end_time <= whole.end_time
        assert attributes(stages[3])["gen_ai.usage.input_tokens"] > 0
        assert attributes(stages[4])["gen_ai.usage.output_tokens"] == 5
        assert "private" not in str([span.to_json() for span in (whole, *stages)])


async def test_what_is_refused_has_no_stages() -> None:
    async with watched_site() as site:
        await site.call(http("GET", "/nothing"))
        await site.call(chat(temperature=-1))
        missing, refused = await site.told(2)
        assert missing.name == "GET"
        assert missing.parent is None
        assert attributes(missing)["error.type"] == "not_found"
        assert attributes(refused)["error.type"] == "invalid_value"
        assert refused.status.status_code is StatusCode.UNSET


async def test_a_client_that_leaves_and_a_row_that_fails_end_their_spans() -> None:
    model = ScriptedModel(load_seconds=0, scripts={"fails": Script(fail_at=2)})
    async with watched_site(model) as site:
        async with site.dial() as caller:
            await caller.send(chat(stream=True))
            await caller.read_until(b'"content":"')
            caller.reset()
        *_, decode = await site.told(6)
        assert attributes(decode)["headrace.outcome"] == "cancelled"
        site.exporter.clear()
        assert (await site.call(chat("fails"))).status == 500
        whole, *stages = await site.told(6)
        assert whole.status.status_code is StatusCode.ERROR
        assert attributes(whole)["error.type"] == "generation_failed"
        assert attributes(stages[-1])["headrace.outcome"] == "error"


@pytest.mark.parametrize("header", ["", "nonsense", "00-" + "0" * 32 + "-b7ad6b7169203331-01"])
async def test_a_context_that_is_none_begins_a_trace_of_its_own(header: str) -> None:
    async with watched_site() as site:
        await site.call(http("GET", "/health", headers={"traceparent": header}))
        (span,) = await site.told(1)
        assert span.parent is None
        assert span.context.is_valid


def test_nothing_is_imported_unless_it_is_wanted() -> None:
    program = (
        "import sys, headrace.http.serve, headrace.http.app\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_what_is_missing_is_said_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    check_telemetry(Settings(otel=True))
    monkeypatch.setattr("headrace.http.telemetry.NEEDED", ("opentelemetry.not_there.at_all",))
    check_telemetry(Settings())
    with pytest.raises(SettingError, match=r"headrace\[otel\]"):
        check_telemetry(Settings(otel=True))
