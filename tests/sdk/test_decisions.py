"""Decisions of the default model over sockets: what is read is the same again, and in company."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from headrace.runtime.testing.serving import Serving

JEV: dict[str, Any] = {
    "state": {"customer": "asks for the third time where the parcel is", "hour": 23},
    "questions": {
        "late": {"type": "noul", "instructions": "Is it late in the evening?"},
        "mood": {
            "type": "choice",
            "instructions": "How does the customer feel?",
            "criteria": {"calm": "asks politely", "annoyed": "asks again and again"},
        },
        "risk": {"type": "score", "criteria": ["no complaint", "perhaps", "a complaint"]},
    },
}
OPENAI: dict[str, Any] = {
    "input": "The customer asks for the third time.",
    "questions": [{"type": "predicate", "name": "again", "instructions": "Was it asked before?"}],
}


def ask(served: Serving, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = httpx.post(f"{served.base_url}/v1/{path}", json=body, timeout=240)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def numbers(answers: dict[str, Any]) -> list[float]:
    """All that was read, in order."""
    spread = [
        *answers["mood"]["probabilities"].values(),
        *answers["risk"]["probabilities"].values(),
    ]
    return [answers["late"]["noul"], *spread]


def test_its_numbers_are_probabilities_and_the_same_again(nothing_left: Serving) -> None:
    first, again = (ask(nothing_left, path, JEV) for path in ("systemone", "decisions"))
    answers = first["answers"]
    assert list(answers) == ["late", "mood", "risk"]
    assert 0 < answers["late"]["noul"] < 1
    for name in ("mood", "risk"):
        assert sum(answers[name]["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    mood = answers["mood"]["probabilities"]
    assert answers["mood"]["choice"] == max(mood, key=mood.__getitem__)
    assert first["usage"]["output_tokens"] == 3
    assert again["usage"] == first["usage"]
    # The second time a part of it comes from kept prefixes.
    assert numbers(again["answers"]) == pytest.approx(numbers(answers), abs=1e-4)


def test_its_numbers_are_the_same_beside_rows_that_speak(
    nothing_left: Serving, client: openai.OpenAI
) -> None:
    alone = ask(nothing_left, "decisions", OPENAI)["answers"][0]

    def speak(seed: int) -> str:
        answer = client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": "Count to ten."}],
            max_tokens=12,
            seed=seed,
        )
        return answer.choices[0].message.content or ""

    with ThreadPoolExecutor(4) as pool:
        said = [pool.submit(speak, seed) for seed in range(3)]
        beside = pool.submit(ask, nothing_left, "decisions", OPENAI).result()["answers"][0]
        assert all(future.result() for future in said)
    assert (beside["type"], beside["name"]) == ("predicate", "again")
    assert beside["probability"] == pytest.approx(alone["probability"], abs=1e-4)
