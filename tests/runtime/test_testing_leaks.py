"""The leak check sees tasks, gauges, rows and misuse, and names them."""

from __future__ import annotations

import attrs
import pytest
import trio

from headrace.runtime.contracts import Sampling
from headrace.runtime.ports import RowSpec
from headrace.runtime.sink import StreamSink
from headrace.runtime.testing import (
    Baseline,
    PortMisuse,
    ScriptedLoader,
    ScriptedModel,
    objects,
    tasks,
)


@attrs.define
class Gauges:
    requests_in_flight: int = 0
    queue_depth: int = 0
    rows_running: int = 0
    leases: int = 0
    kv_bytes: int = 0


class Idle:
    def __init__(self) -> None:
        self.gauges = Gauges()

    def statistics(self) -> Gauges:
        return self.gauges


async def test_nothing_is_left_of_nothing() -> None:
    Baseline.of(Idle()).check()


@pytest.mark.parametrize("gauge", [field.name for field in attrs.fields(Gauges)])
async def test_each_gauge_must_return(gauge: str) -> None:
    runtime = Idle()
    baseline = Baseline.of(runtime)
    setattr(runtime.gauges, gauge, 2)
    with pytest.raises(AssertionError, match=f"{gauge}: 0 before, 2 now"):
        baseline.check()


async def test_a_task_that_lives_on_is_named() -> None:
    async with trio.open_nursery() as nursery:
        baseline = Baseline.of(Idle())
        nursery.start_soon(trio.sleep_forever, name="forgotten")
        assert tasks()["forgotten"] == 1
        with pytest.raises(AssertionError, match="task forgotten: 0 before, 1 now"):
            baseline.check()
        nursery.cancel_scope.cancel()
    baseline.check()


async def test_rows_and_misuse_of_an_engine_are_found() -> None:
    model = ScriptedModel()
    ScriptedLoader(model)(model.id, lambda done: None)
    baseline = Baseline.of(Idle(), [model.engine])
    model.engine.add(RowSpec(5, (1,), Sampling(seed=0), 1))
    with pytest.raises(PortMisuse):
        model.engine.remaining(6)

    found = baseline.leaks()

    assert found[0].startswith("row 5 is still in <ScriptedEngine")
    assert found[1] == "port misused: row 6 is not in the batch"


def test_objects_of_ours_are_counted_while_they_live() -> None:
    class Odd:
        """A class without a proper module, as foreign code may make."""

    Odd.__module__ = property(lambda self: None)  # type: ignore[assignment]
    name = "headrace.runtime.sink.StreamSink"
    odd, before = Odd(), objects()[name]

    sink = StreamSink()
    assert objects()[name] == before + 1
    del sink, odd
    assert objects()[name] == before


def test_what_the_kit_records_is_not_counted() -> None:
    model = ScriptedModel()
    assert not any(name.startswith("headrace.runtime.testing.") for name in objects())
    del model
