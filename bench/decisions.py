#!/usr/bin/env python3
"""What twenty questions about one state cost together, beside a single one.

    python bench/decisions.py --state-tokens 1000 --questions 20 --rounds 3

Times are medians over the rounds, of a real server with its default model. The prompt cache is
off, so that every round computes its state anew. `apart` is what as many requests with one question
each would take, one after the other.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import time
from typing import Any

from headrace.runtime.testing.serving import Serving, serving

SENTENCE = "The shipment of crate {n} was checked, weighed and found to be complete. "
# About so many tokens in each of them.
SENTENCE_TOKENS = 17
QUESTION = {"type": "choice", "criteria": {"yes": None, "no": None, "unclear": None}}


def ask(server: Serving, state: str, questions: dict[str, Any]) -> tuple[float, int]:
    """Seconds and input tokens of one request."""
    body = json.dumps({"state": state, "questions": questions})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    began = time.perf_counter()
    connection.request("POST", "/v1/systemone", body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    answer = json.loads(reply.read())
    seconds = time.perf_counter() - began
    connection.close()
    if reply.status != 200:
        raise RuntimeError(answer["error"]["message"])
    return seconds, answer["usage"]["input_tokens"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state-tokens", type=int, default=1000)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    state = "".join(SENTENCE.format(n=n) for n in range(given.state_tokens // SENTENCE_TOKENS))
    asked = {
        f"q{n}": QUESTION | {"instructions": f"Was crate {n} complete?"}
        for n in range(given.questions)
    }
    first = dict(list(asked.items())[:1])
    alone: list[float] = []
    together: list[float] = []
    with serving("--prompt-cache-bytes", "0") as server:
        ask(server, "warm", first)
        for _ in range(given.rounds):
            seconds, one_tokens = ask(server, state, first)
            alone.append(seconds)
            seconds, all_tokens = ask(server, state, asked)
            together.append(seconds)
    one, all_ = statistics.median(alone), statistics.median(together)
    print(f"{one_tokens} input tokens for one question, {all_tokens} for {given.questions}")
    print(f"one question {one:.2f} s, {given.questions} together {all_:.2f} s")
    times = given.questions * one / all_
    print(f"together {all_ / one:.2f} times one; apart {times:.1f} times as long")


if __name__ == "__main__":
    main()
