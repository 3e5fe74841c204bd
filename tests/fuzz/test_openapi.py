"""Bodies made from our own description of the routes: those that keep to it, and others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from trio.testing import MockClock

from headrace.http.app import create_app
from headrace.http.wire.openapi import document
from headrace.runtime.testing.fuzzing import terse
from headrace.runtime.testing.inprocess import post
from headrace.runtime.testing.scene import open_scene
from headrace.runtime.testing.verdicts import complaint

PATHS = ("/v1/chat/completions", "/v1/completions")
EXAMPLES = 12


def drawn(path: str, mode: str) -> list[bytes]:
    """Bodies for a route. What is wrong with one is seen without making it smaller."""
    # Seconds, which every process would take that only collects the tests.
    import schemathesis

    schema = schemathesis.openapi.from_dict(document("0"))
    found = list[bytes]()

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=schema[path]["POST"].as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
    def draw(case: Any) -> None:
        found.append(json.dumps(case.body, default=lambda _: None).encode())

    draw()
    return found


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("path", PATHS)
async def test_every_body_gets_a_typed_answer_i1(
    autojump_clock: MockClock, path: str, mode: str
) -> None:
    async with open_scene(terse()) as scene:
        app = create_app(scene.runtime)
        for body in drawn(path, mode):
            answer = await post(app, path, body)
            assert answer.complete
            wrong = complaint(path, answer.status, answer.headers["content-type"], answer.body)
            assert not wrong, f"{wrong} {answer.body[:300]!r} for {body[:2000]!r}"
        await scene.baseline.settle()
