"""Models by name and by hand: preload, pins, unloads, idle models, aliases, places and roles."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from headrace.actors.provision import Provision
from headrace.actors.runtime import Runtime, open_runtime
from headrace.actors.spec import ModelSpec
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.settings import Settings
from headrace.runtime.testing import ScriptedDevice, ScriptedLoader, ScriptedModel
from headrace.runtime.testing.inline import inline_threads
from headrace.runtime.testing.runtime import Answer, ask, asking, read_all

WEIGHTS = 1000
PLACES = {"/models/a": "a", "./a": "a", "owner/b": "b", "/models/b": "b"}


def models(*names: str, **changed: Any) -> ScriptedLoader:
    made = [
        ScriptedModel(id=name, weights_bytes=WEIGHTS, kv_bytes_per_token=0, **changed)
        for name in names
    ]
    return ScriptedLoader(*made, device=ScriptedDevice())


def open_models(
    loader: ScriptedLoader,
    *,
    fit: int = 2,
    companions: tuple[str, ...] = (),
    preload: int = 1,
    **settings: Any,
) -> AbstractAsyncContextManager[Runtime]:
    """A runtime in whose budget `fit` models have room."""
    specs = [
        ModelSpec(name, name, WEIGHTS, role="companion" if name in companions else "primary")
        for name in loader.models
    ]
    provision = Provision(tuple(specs), loader, fit * WEIGHTS, preload=preload, places=PLACES)
    threads = inline_threads(loader.device)
    return open_runtime(Settings(**settings), provision=provision, threads=threads)


async def say(runtime: Runtime, model: str | None, max_tokens: int = 3) -> Answer:
    return await ask(runtime, asking("hello", model=model, max_tokens=max_tokens))


def states(runtime: Runtime) -> dict[str, str]:
    return {model.id: model.state for model in runtime.statistics().models}


# ---- at the start, and after a while ------------------------------------------------------------


async def test_what_is_named_is_loaded_before_anybody_asks(autojump_clock: MockClock) -> None:
    async with open_models(models("a", "b", "c"), fit=3, preload=2) as runtime:
        await trio.sleep(5)
        assert states(runtime) == {"a": "ready", "b": "ready", "c": "never_loaded"}
        assert runtime.statistics().leases == 0


async def test_a_preload_that_fails_is_tried_again_by_who_asks(autojump_clock: MockClock) -> None:
    loader = models("a")
    loader.model.load_failures.append(RequestError(Code.LOAD_FAILED, "the disk was away"))
    async with open_models(loader) as runtime:
        await trio.sleep(5)
        assert states(runtime) == {"a": "load_failed"}
        assert (await say(runtime, "a")).code is None
        assert loader.loads == ["a", "a"]


async def test_a_load_that_fails_is_told_to_all_who_wait_and_to_nobody_else(
    autojump_clock: MockClock,
) -> None:
    loader = models("a", "b")
    loader.models["b"].load_failures.append(RequestError(Code.LOAD_FAILED, "no weights"))
    async with open_models(loader) as runtime:
        answers: list[Answer] = []

        async def one(model: str) -> None:
            answers.append(await say(runtime, model))

        async with trio.open_nursery() as nursery:
            for model in "bbba":
                nursery.start_soon(one, model)
        codes = sorted(str(answer.code) for answer in answers)
        assert codes == ["None", *["load-failed"] * 3]
        assert loader.loads.count("b") == 1
        assert (await say(runtime, "b")).code is None


async def test_what_nobody_uses_is_unloaded_and_comes_back_when_it_is_asked_for(
    autojump_clock: MockClock,
) -> None:
    loader = models("a", "b")
    async with open_models(loader, idle_unload_s=60) as runtime:
        await runtime.load("b", pin=True)
        await say(runtime, "a")
        await trio.sleep(59)
        assert states(runtime)["a"] == "ready"
        await trio.sleep(2)
        assert states(runtime) == {"a": "unloaded_idle", "b": "ready"}, "a pinned model stays"
        assert loader.device.active_bytes == WEIGHTS
        assert (await say(runtime, "a")).code is None
        assert states(runtime)["a"] == "ready"


async def test_a_model_in_use_is_never_idle(autojump_clock: MockClock) -> None:
    loader = models("a", timings=attrs.evolve(ScriptedModel().timings, seconds_per_decode=10))
    async with open_models(loader, idle_unload_s=5) as runtime:
        answer = await say(runtime, "a", max_tokens=20)
        assert (answer.code, len(answer.text)) == (None, 20)
        assert loader.loads == ["a"]


# ---- by hand ------------------------------------------------------------------------------------


async def test_force_ends_the_requests_of_that_model_with_one_error_each(
    autojump_clock: MockClock,
) -> None:
    async with open_models(models("a", "b")) as runtime:
        await runtime.load("b")
        ends: dict[str, Code | None] = {}

        async def one(number: int, model: str) -> None:
            request = asking(f"{number}", model=model, max_tokens=500)
            ends[f"{model}{number}"] = (await ask(runtime, request)).code

        async with trio.open_nursery() as nursery:
            for number, model in enumerate("aab"):
                nursery.start_soon(one, number, model)
            await trio.sleep(2)
            with pytest.raises(RequestError) as caught:
                await runtime.unload("a")
            assert caught.value.code is Code.IN_USE
            assert ends == {}
            assert (await runtime.unload("a", force=True)).state == "unloaded_by_request"
        assert ends == {"a0": Code.MODEL_UNLOADED, "a1": Code.MODEL_UNLOADED, "b2": None}
        await wait_all_tasks_blocked()
        assert runtime.statistics().leases == 0


async def test_a_pinned_model_makes_no_room_until_its_pin_is_off(
    autojump_clock: MockClock,
) -> None:
    async with open_models(models("a", "b"), fit=1) as runtime:
        await runtime.load("a", pin=True)
        refused = await say(runtime, "b")
        assert refused.code is Code.DOES_NOT_FIT
        assert states(runtime)["a"] == "ready"
        await runtime.pin("a", pinned=False)
        assert (await say(runtime, "b")).code is None
        assert states(runtime) == {"a": "evicted", "b": "ready"}


async def test_whoever_waits_for_a_busy_model_to_end_is_served_though_others_keep_coming(
    autojump_clock: MockClock,
) -> None:
    """Ten clients want the model that is there, again and again, and one wants the other."""
    async with open_models(models("a", "b"), fit=1) as runtime:
        await runtime.load("a")
        served_meanwhile = 0
        over = trio.CancelScope()

        async def again_and_again() -> None:
            nonlocal served_meanwhile
            while True:
                assert (await say(runtime, "a")).code is None
                served_meanwhile += 1

        with over:
            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(again_and_again)
                await trio.sleep(1)
                before = served_meanwhile
                assert (await say(runtime, "b")).code is None
                # Ten leases were held, and 32 more may pass whoever waits.
                assert served_meanwhile - before <= 10 + 32
                over.cancel()


# ---- by name ------------------------------------------------------------------------------------


async def test_an_alias_is_the_current_model_and_follows_it(autojump_clock: MockClock) -> None:
    async with open_models(models("a", "b")) as runtime:
        for name in (None, "", "default", "local"):
            answer = await say(runtime, name)
            assert answer.accepted.model == "a"
        await runtime.load("b", current=True)
        assert (await say(runtime, "default")).accepted.model == "b"
        assert (await say(runtime, "a")).accepted.model == "a"


@pytest.mark.parametrize("name", ["a", "gpt", "/models/a", "./a", "/models/./a/", "/models/b/../a"])
async def test_an_id_a_place_and_a_further_name_are_one_model_and_one_load(
    name: str, autojump_clock: MockClock
) -> None:
    loader = models("b", "a")
    async with open_models(loader, model_names={"gpt": "/models/a"}) as runtime:
        await say(runtime, "a")
        answer = await say(runtime, name)
        assert answer.accepted.model == "a"
        assert loader.loads.count("a") == 1


async def test_orders_by_hand_know_places_too_and_no_aliases(autojump_clock: MockClock) -> None:
    async with open_models(models("a", "b")) as runtime:
        assert (await runtime.load("owner/b")).id == "b"
        assert (await runtime.pin("/models/b")).id == "b"
        assert runtime.model("/models/b").pinned
        with pytest.raises(RequestError) as caught:
            await runtime.load("default")
        assert caught.value.code is Code.MODEL_NOT_FOUND


async def test_a_path_that_is_no_model_of_ours_is_an_unknown_name(
    autojump_clock: MockClock,
) -> None:
    async with open_models(models("a")) as runtime:
        for name in ("/etc/passwd", "/models/a/../../etc", "owner/c", "."):
            assert (await say(runtime, name)).code is Code.MODEL_NOT_FOUND


async def test_who_has_no_seat_yet_hears_of_an_unload_and_not_of_the_server(
    autojump_clock: MockClock,
) -> None:
    """A lease was granted, and the model unloaded by force before its holder took a seat."""
    async with open_models(models("a"), preload=0) as runtime, trio.open_nursery() as nursery:
        async with runtime.registry.lease("t", "a") as lease:
            nursery.start_soon(partial(runtime.unload, "a", force=True))
            await wait_all_tasks_blocked()
            with pytest.raises(RequestError) as caught:
                async with lease.host.seat("t", lambda event: None):
                    pass
        assert caught.value.code is Code.MODEL_UNLOADED


# ---- roles --------------------------------------------------------------------------------------


async def test_a_companion_is_never_the_current_model(autojump_clock: MockClock) -> None:
    async with open_models(models("speech", "a"), companions=("speech",)) as runtime:
        assert runtime.statistics().current == "a"
        assert {m.id: m.role for m in runtime.statistics().models} == {
            "speech": "companion",
            "a": "primary",
        }
        with pytest.raises(RequestError) as caught:
            await runtime.load("speech", current=True)
        assert caught.value.code is Code.UNSUPPORTED_CAPABILITY
        assert runtime.statistics().current == "a"


async def test_a_companion_writes_no_text_and_is_not_loaded_for_who_asks_for_some(
    autojump_clock: MockClock,
) -> None:
    loader = models("a", "speech")
    async with open_models(loader, companions=("speech",)) as runtime:
        refused = await say(runtime, "speech")
        assert refused.code is Code.UNSUPPORTED_CAPABILITY
        assert "speech" not in loader.loads


async def test_a_companion_counts_in_the_budget_like_any_other(autojump_clock: MockClock) -> None:
    loader = models("a", "b", "speech")
    async with open_models(loader, companions=("speech",)) as runtime:
        await runtime.load("speech")
        await say(runtime, "a")
        await say(runtime, "b")
        assert states(runtime) == {"a": "ready", "b": "ready", "speech": "evicted"}
        assert loader.device.peak_bytes == 2 * WEIGHTS


async def test_a_lease_is_held_until_the_events_are_handed_over(
    autojump_clock: MockClock,
) -> None:
    """A reader who has stopped does not keep the model; one who is not done reading loses none."""
    slow = asking("slow", model="a", max_tokens=5)
    async with open_models(models("a", "b"), fit=1) as runtime, runtime.request(slow) as generation:
        await trio.sleep(10)
        assert runtime.statistics().leases == 0
        assert (await say(runtime, "b")).code is None
        assert states(runtime)["a"] == "evicted"
        assert len((await read_all(generation)).text) == 5
