"""Spoiled bodies over real sockets: a real model is asked what is left of them."""

from __future__ import annotations

import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pytest

from headrace.runtime.testing.good_bodies import GOOD
from headrace.runtime.testing.mutants import bodies
from headrace.runtime.testing.serving import Serving
from headrace.runtime.testing.verdicts import complaint

BODIES = 80
AT_A_TIME = 4
MOST_TOKENS = 3
CAPS = ("max_tokens", "max_completion_tokens")


def bounded(body: bytes) -> bytes:
    """The same with a cap, where there is none or one beyond a test's patience."""
    try:
        fields = json.loads(body)
    except ValueError:
        return body
    if not isinstance(fields, dict):
        return body
    caps = {name: fields.get(name) for name in CAPS}
    if any(_is_large(cap) for cap in caps.values()) or not any(caps.values()):
        fields = {name: value for name, value in fields.items() if name not in CAPS}
        return json.dumps(fields | {"max_tokens": MOST_TOKENS}).encode()
    return body


def _is_large(cap: Any) -> bool:
    return isinstance(cap, int | float) and cap > MOST_TOKENS


def ask(port: int, path: str, body: bytes) -> str:
    """What is wrong with the answer to a body. Raises where the connection is dropped."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=240)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        wrong = complaint(path, answer.status, answer.headers["content-type"], said)
    finally:
        connection.close()
    return f"{wrong}: {said[:300]!r} for {body[:2000]!r}" if wrong else ""


@pytest.fixture(scope="module")
def served(served_small: Serving) -> Serving:
    """What is answered to these depends on no weights."""
    return served_small


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_each_gets_a_typed_answer_i1_i4(served: Serving, nothing_left: Serving, path: str) -> None:
    spoiled = [bounded(body) for body in islice(bodies(GOOD[path], seed=2), BODIES)]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        wrong = list(pool.map(lambda body: ask(served.port, path, body), spoiled))
    assert not [text for text in wrong if text]
    assert served.faults() == []
