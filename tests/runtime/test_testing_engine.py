"""The scripted engine keeps the port's contract, and tells who does not."""

from __future__ import annotations

import pytest

from headrace.runtime.contracts import Prompt, Sampling
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.ports import Engine, Loader, RowFailed, RowSpec, RowToken, StepResult
from headrace.runtime.testing import (
    AllocationFailed,
    PortMisuse,
    Script,
    ScriptedDevice,
    ScriptedEngine,
    ScriptedFault,
    ScriptedLoader,
    ScriptedModel,
    Timings,
    raising,
)

GREEDY = Sampling(seed=0, temperature=0.0)


def loaded(model: ScriptedModel, device: ScriptedDevice | None = None) -> ScriptedEngine:
    loader: Loader = ScriptedLoader(model, device=device)
    engine: Engine = loader(model.id, lambda done: None).engine
    assert isinstance(engine, ScriptedEngine)
    return engine


def add(
    engine: ScriptedEngine, row: int, prompt: str, *, prefilled: bool = True, max_tokens: int = 1000
) -> None:
    engine.add(RowSpec(row, tuple(prompt.encode()), GREEDY, max_tokens))
    if prefilled and engine.remaining(row):
        engine.prefill([(row, engine.remaining(row))])


def said(engine: ScriptedEngine, row: int, steps: int) -> str:
    tokens = [token for _ in range(steps) for token in engine.decode().tokens]
    return bytes(token.token for token in tokens if token.row == row).decode()


def test_a_row_says_its_script_and_then_its_end_token() -> None:
    engine = loaded(ScriptedModel(scripts={"greet": Script("Hi")}))
    add(engine, 1, "greet me")

    tokens = [engine.decode().tokens for _ in range(3)]

    assert tokens == [(RowToken(1, token),) for token in (ord("H"), ord("i"), 256)]


def test_a_script_without_end_starts_again() -> None:
    engine = loaded(ScriptedModel(scripts={"": Script("ab", end=False)}))
    add(engine, 1, "x")
    assert said(engine, 1, 5) == "ababa"


def test_without_a_script_a_row_walks_the_alphabet_from_a_place_that_its_prompt_gives() -> None:
    alone, together = loaded(ScriptedModel()), loaded(ScriptedModel())
    add(alone, 7, "one prompt")
    add(together, 1, "another")
    add(together, 2, "one prompt")
    add(together, 3, "a third")

    solo = said(alone, 7, 30)

    assert said(together, 2, 30) == solo
    assert solo[:26] != said(loaded_with("another"), 1, 26)
    assert sorted(solo[:26]) == sorted("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def loaded_with(prompt: str) -> ScriptedEngine:
    engine = loaded(ScriptedModel())
    add(engine, 1, prompt)
    return engine


def test_a_prompt_is_prefilled_but_for_its_last_token_and_only_then_decodes() -> None:
    engine = loaded(ScriptedModel())
    add(engine, 1, "abcd", prefilled=False)
    assert engine.remaining(1) == 3

    first = engine.prefill([(1, 2)])
    assert (engine.remaining(1), first.prefilled, engine.decode().tokens) == (1, 2, ())

    engine.prefill([(1, 1)])
    assert engine.remaining(1) == 0
    assert len(engine.decode().tokens) == 1


def test_steps_take_the_time_that_the_model_says() -> None:
    timings = Timings(seconds_per_prefill_token=0.5, seconds_per_decode=3.0)
    device = ScriptedDevice()
    engine = loaded(ScriptedModel(timings=timings, load_seconds=10.0), device)
    add(engine, 1, "abc", prefilled=False)

    assert engine.prefill([(1, 2)]).seconds == 1.0
    assert engine.decode().seconds == 3.0
    assert device.busy_seconds == 14.0


def test_memory_is_weights_and_kv_and_all_of_it_comes_back() -> None:
    device = ScriptedDevice()
    engine = loaded(ScriptedModel(weights_bytes=1000, kv_bytes_per_token=10), device)
    add(engine, 1, "abcd")
    add(engine, 2, "ef")
    engine.decode()

    assert engine.kv_bytes() == (3 + 1 + 1 + 1) * 10
    assert engine.memory().active_bytes == 1060
    engine.remove(1)
    assert engine.kv_bytes() == 20
    engine.close()
    assert (engine.memory().active_bytes, engine.memory().peak_bytes) == (0, 1060)


def test_an_allocation_beyond_the_limit_fails_and_changes_nothing() -> None:
    device = ScriptedDevice(limit_bytes=1025)
    engine = loaded(ScriptedModel(weights_bytes=1000, kv_bytes_per_token=10), device)
    add(engine, 1, "abc")

    with pytest.raises(AllocationFailed, match="10 bytes, 5 are left"):
        engine.decode()
    assert device.active_bytes == 1020


class TestFaults:
    def test_a_row_that_fails_is_gone_and_its_neighbour_goes_on(self) -> None:
        engine = loaded(ScriptedModel(scripts={"bad": Script(fail_at=2), "": Script("xyz")}))
        add(engine, 1, "bad row")
        add(engine, 2, "good row")
        engine.decode()

        result = engine.decode()

        assert [failed.row for failed in result.failed] == [1]
        assert result.tokens == (RowToken(2, ord("y")),)
        assert engine.rows == (2,)

    def test_a_script_can_raise_in_a_step_and_in_the_prefill(self) -> None:
        engine = loaded(ScriptedModel(scripts={"p": Script(raise_at=0), "": Script(raise_at=1)}))
        add(engine, 1, "in decode")
        with pytest.raises(ScriptedFault):
            engine.decode()
        with pytest.raises(ScriptedFault):
            add(engine, 2, "in prefill, p")

    def test_a_script_can_fail_a_row_in_its_prefill(self) -> None:
        engine = loaded(ScriptedModel(scripts={"": Script(fail_at=0)}))
        add(engine, 1, "abc", prefilled=False)
        result = engine.prefill([(1, 2)])
        assert (result.failed, engine.rows) == (
            (RowFailed(1, "the script fails here"),),
            (),
        )

    def test_a_script_can_hang_the_device(self) -> None:
        device = ScriptedDevice()
        engine = loaded(ScriptedModel(scripts={"": Script(hang_at=2)}), device)
        add(engine, 1, "a")
        engine.decode()
        assert not device.hung
        engine.decode()
        assert device.hung

    def test_a_hook_runs_in_its_step_and_only_once(self) -> None:
        model, record = ScriptedModel(), []
        model.at_step(2, lambda: record.append("step 2"))
        model.at_step(2, lambda: record.append("decode 2"), kind="decode")
        engine = loaded(model)
        add(engine, 1, "abc")
        assert record == []

        engine.decode()
        assert record == ["step 2"]
        engine.decode()
        engine.decode()
        assert record == ["step 2", "decode 2"]
        assert model.hooks.pending == 0

    def test_a_hook_may_raise_in_the_steps_place(self) -> None:
        model = ScriptedModel()
        model.at_step(1, raising(OSError("the device is gone")))
        engine = loaded(model)
        add(engine, 1, "a")
        with pytest.raises(OSError, match="gone"):
            engine.decode()
        assert len(engine.decode().tokens) == 1

    def test_a_hook_may_give_garbage_and_then_the_step_computes_nothing(self) -> None:
        garbage = StepResult(tokens=(RowToken(99, -5),))
        model = ScriptedModel(scripts={"": Script("ab")})
        model.at_step(1, lambda: garbage)
        engine = loaded(model)
        add(engine, 1, "x")
        assert engine.decode() == garbage
        assert said(engine, 1, 2) == "ab"


class TestMisuse:
    @pytest.mark.parametrize(
        ("misuse", "ask"),
        [
            ("added twice", lambda engine: add(engine, 1, "again")),
            ("not in the batch", lambda engine: engine.remaining(9)),
            ("not in the batch", lambda engine: engine.prefill([(9, 1)])),
            ("not 4", lambda engine: engine.prefill([(1, 4)])),
            ("not 0", lambda engine: engine.prefill([(1, 0)])),
            ("without rows", lambda engine: engine.prefill([])),
            ("twice in one", lambda engine: engine.prefill([(1, 3), (1, 3)])),
            ("beside others", lambda engine: engine.prefill([(1, 2), (2, 3)])),
        ],
    )
    def test_is_raised_and_kept(self, misuse: str, ask) -> None:  # type: ignore[no-untyped-def]
        engine = loaded(ScriptedModel())
        add(engine, 1, "abcd", prefilled=False)
        add(engine, 2, "efgh", prefilled=False)
        with pytest.raises(PortMisuse, match=misuse):
            ask(engine)
        assert misuse in engine.misuses[0]

    def test_a_row_number_is_never_used_again(self) -> None:
        engine = loaded(ScriptedModel())
        add(engine, 1, "abcd")
        engine.remove(1)
        with pytest.raises(PortMisuse):
            add(engine, 1, "efgh")

    def test_a_row_must_be_removed_at_its_cap(self) -> None:
        engine = loaded(ScriptedModel())
        add(engine, 1, "a", max_tokens=1)
        engine.decode()
        with pytest.raises(PortMisuse, match="past its max_tokens"):
            engine.decode()

    def test_nothing_is_asked_after_close(self) -> None:
        engine = loaded(ScriptedModel())
        engine.close()
        with pytest.raises(PortMisuse, match="after close"):
            engine.remove(1)

    def test_removing_an_unknown_row_is_none(self) -> None:
        engine = loaded(ScriptedModel())
        engine.remove(12)
        assert engine.misuses == []


def test_the_record_tells_the_life_of_a_row() -> None:
    engine = loaded(ScriptedModel())
    add(engine, 1, "the first", prefilled=False)
    engine.prefill([(1, 3)])
    engine.prefill([(1, 5)])
    add(engine, 2, "the second")
    engine.decode()
    engine.remove(1)
    engine.decode()

    first, second = engine.row_of("first"), engine.row_of("second")
    assert (first, second) == (1, 2)
    assert engine.steps_of(first) == (1, 2, 4)
    assert engine.steps_of(second) == (3, 4, 5)
    assert engine.removed_after(first) == 4
    assert engine.removed_after(second) is None
    with pytest.raises(LookupError):
        engine.row_of("the")
    assert repr(engine) == "<ScriptedEngine 1 rows, 11000 KV bytes | 5 steps>"


class TestLoader:
    def test_a_load_may_fail_and_then_succeed(self) -> None:
        failure = RequestError(Code.LOAD_FAILED, "the file is cut short")
        loader = ScriptedLoader(ScriptedModel(id="m", load_failures=[failure]))
        progress: list[float] = []
        with pytest.raises(RequestError, match="cut short"):
            loader("m", progress.append)
        assert loader("m", progress.append).info.id == "m"
        assert (loader.loads, progress) == (["m", "m"], [0.0, 0.0, 1.0])

    def test_an_unknown_source_is_a_failed_load(self) -> None:
        with pytest.raises(RequestError) as caught:
            ScriptedLoader()("nothing", lambda done: None)
        assert caught.value.code is Code.LOAD_FAILED

    def test_two_models_share_the_device_and_one_may_not_fit(self) -> None:
        device = ScriptedDevice(limit_bytes=150)
        one, two = (ScriptedModel(id=name, weights_bytes=100) for name in ("one", "two"))
        loader = ScriptedLoader(one, two, device=device)
        loader("one", lambda done: None)
        with pytest.raises(RequestError, match="100 bytes, 50 are left"):
            loader("two", lambda done: None)
        one.engine.close()
        loader("two", lambda done: None)
        assert device.active_bytes == 100
        assert [engine.closed for engine in loader.engines()] == [True, False]

    def test_the_engine_of_a_model_that_was_never_loaded_is_an_error(self) -> None:
        with pytest.raises(LookupError, match="never loaded"):
            _ = ScriptedModel().engine

    def test_the_prompt_is_built_by_the_models_own_tokenizer(self) -> None:
        model = ScriptedModel()
        loaded_model = ScriptedLoader(model)(model.id, lambda done: None)
        assert loaded_model.tokenizer.build(Prompt(text="ab")) == (97, 98)
        assert model.tokenizer.builds == 1
        assert loaded_model.info.vocab_size == 257
