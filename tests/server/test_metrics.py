"""The page for Prometheus: its own parser reads it, each promised series is there, and gauges come
back to where they were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import trio
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import MockClock

from headrace.runtime.testing import Script, ScriptedModel, Timings
from headrace.runtime.testing.memory_site import MemorySite, open_memory_site
from headrace.runtime.testing.site import Site, chat, http, open_site

# Wire contract 13.4: name: (type, labels).
PROMISED = {
    "headrace_requests_total": ("counter", {"model", "route", "status", "outcome"}),
    "headrace_requests_in_flight": ("gauge", set[str]()),
    "headrace_queue_depth": ("gauge", set[str]()),
    "headrace_rows_running": ("gauge", set[str]()),
    "headrace_leases": ("gauge", set[str]()),
    "headrace_tokens_total": ("counter", {"kind"}),
    "headrace_cancelled_total": ("counter", {"reason"}),
    "headrace_errors_total": ("counter", {"type", "code"}),
    "headrace_ttft_seconds": ("histogram", {"model"}),
    "headrace_inter_token_seconds": ("histogram", {"model"}),
    "headrace_request_seconds": ("histogram", {"model"}),
    "headrace_queue_seconds": ("histogram", {"model"}),
    "headrace_load_seconds": ("histogram", {"model"}),
    "headrace_cancel_seconds": ("histogram", {"model"}),
    "headrace_ledger_bytes": ("gauge", {"kind"}),
    "headrace_ledger_ceiling_bytes": ("gauge", set[str]()),
    "headrace_measured_bytes": ("gauge", set[str]()),
    "headrace_worker_up": ("gauge", set[str]()),
    "headrace_worker_processes": ("gauge", set[str]()),
    "headrace_worker_restarts_total": ("counter", set[str]()),
    "headrace_evictions_total": ("counter", set[str]()),
    "headrace_prompt_cache_hits_total": ("counter", set[str]()),
    "headrace_prompt_cache_misses_total": ("counter", set[str]()),
}
VALUES = {
    ("headrace_tokens_total", "kind"): {"prompt", "cached", "decoded", "reasoning"},
    ("headrace_cancelled_total", "reason"): {"disconnect", "api", "drain", "timeout", "stall"},
    ("headrace_ledger_bytes", "kind"): {"weights", "kv", "kv_reserved", "prefill", "cache"},
}
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def families(site: Site | MemorySite) -> dict[str, Metric]:
    reply = await site.call(http("GET", "/metrics"))
    return {family.name: family for family in text_string_to_metric_families(reply.body.decode())}


async def gauges(site: Site | MemorySite) -> Series:
    """Every gauge but those of the server's own process, which may grow a little."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in (await families(site)).values()
        if family.type == "gauge" and family.name.startswith("headrace_")
        # When a counter began to count is a gauge too.
        if not family.name.endswith("_created")
        for sample in family.samples
    }


def labels_of(family: Metric) -> Iterator[set[str]]:
    for sample in family.samples:
        yield set(sample.labels) - {"le"}


async def load_again(site: Site) -> None:
    """The first load was over before anybody listened."""
    for what in ("unload", "load"):
        await site.call(http("POST", f"/admin/models/scripted/{what}"))


async def cancel(site: Site | MemorySite) -> None:
    async with site.dial() as caller:
        await caller.send(chat(stream=True))
        await caller.read_until(b'"content":"')
        reply = await site.call(http("GET", "/v1/requests"))
        await site.call(http("DELETE", f"/v1/requests/{reply.json['data'][0]['id']}"))
        await caller.read_to_end()


async def test_prometheus_reads_each_promised_series() -> None:
    async with open_site() as site:
        await load_again(site)
        await site.call(chat(stream=True, max_tokens=3))
        await site.call(chat(model="made-up"))
        await cancel(site)
        await site.idle()
        found = await families(site)
        for name, (kind, labels) in PROMISED.items():
            family = found[name.removesuffix("_total")]
            assert (family.type, bool(family.documentation)) == (kind, True), name
            told = list(labels_of(family))
            assert told, name
            assert all(these == labels for these in told), name
        for (name, label), values in VALUES.items():
            samples = found[name.removesuffix("_total")].samples
            assert {s.labels[label] for s in samples if s.name == name} == values


async def test_the_histograms_are_of_the_model_that_answered() -> None:
    async with open_site() as site:
        await load_again(site)
        await site.call(chat(stream=True, max_tokens=3))
        found = await families(site)
        for name in ("ttft", "inter_token", "request", "queue", "load"):
            samples = found[f"headrace_{name}_seconds"].samples
            counted = {s.labels["model"]: s.value for s in samples if s.name.endswith("_count")}
            assert counted["scripted"] >= 1, name


async def test_thoughts_are_counted_apart() -> None:
    script = Script(tokens="<think>hm</think>yes")
    model = ScriptedModel(load_seconds=0, script_of=lambda spec: script)
    async with open_site(model) as site:
        reply = await site.call(chat())
        thought = reply.json["usage"].get("completion_tokens_details", {}).get("reasoning_tokens")
        samples = (await families(site))["headrace_tokens"].samples
        assert {s.labels["kind"]: s.value for s in samples}["reasoning"] == (thought or 0)


async def test_made_up_names_add_no_series() -> None:
    async with open_site() as site:

        async def crowd(numbers: range) -> int:
            for number in numbers:
                await site.call(chat(model=f"made-up-{number}"))
                await site.call(http("GET", f"/made/up/{number}"))
                await site.call(http(f"MADE{number}", "/health"))
                await site.call(http("DELETE", f"/v1/requests/{number}"))
            return sum(len(family.samples) for family in (await families(site)).values())

        await families(site)
        assert await crowd(range(2)) == await crowd(range(2, 12))


async def test_gauges_are_back_after_every_kind_of_ending_a8(virtual_clock: MockClock) -> None:
    # Some rows fail in the midst of their answer, and some take the step with them.
    scripts = {"fails": Script(fail_at=3), "raises": Script(raise_at=3)}
    model = ScriptedModel(
        load_seconds=0, scripts=scripts, timings=Timings(seconds_per_decode=0.005)
    )
    settings: dict[str, Any] = {"max_rows": 4, "queue_limit": 4, "request_timeout_s": 1.0}
    async with open_memory_site(model, **settings) as site:
        await site.call(chat(max_tokens=2))
        await site.idle()
        before = await gauges(site)
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                for text in ("ends", "fails", "raises"):
                    nursery.start_soon(site.call, chat(text, max_tokens=20))
                nursery.start_soon(leave_if_it_can, site)
        await cancel(site)
        # One that only the time limit ends.
        assert (await site.call(chat(max_tokens=4000))).status == 200
        await site.call(chat(model="nobody"))
        await site.call(chat(temperature=-1))
        assert (await gauges(site))["headrace_requests_in_flight", frozenset()] == 0
        await trio.sleep(1)
        await site.idle()
        after = await gauges(site)
        assert dict(after.items() - before.items()) == {}


async def leave_if_it_can(site: MemorySite) -> None:
    """Hang up, whether in the queue, before the first text, or refused."""
    async with site.dial() as caller:
        await caller.send(chat(stream=True))
        await trio.sleep(0.05)
