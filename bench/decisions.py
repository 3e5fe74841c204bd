#!/usr/bin/env python3
"""What twenty questions about one state cost together, beside a single one.

    python bench/decisions.py --state-tokens 1000 --questions 20 --rounds 3

The engine computes the rows as it does for the server, in chunks of 128 tokens and with nothing
kept from one to the next. Processor time stands beside the clock's, as it minds other work on the
machine less; both are medians over the rounds. `apart` is what as many requests with one question
each would take.
"""

from __future__ import annotations

import argparse
import statistics
import time

from _second import default_folder

from headrace.actors.deciding import Deciding
from headrace.actors.engine.start import EngineLoader
from headrace.actors.reading import Passage
from headrace.runtime.contracts import Sampling
from headrace.runtime.ports import Engine, RowSpec
from headrace.runtime.readings import DecisionRequest, Question

SENTENCE = "The shipment of crate {n} was checked, weighed and found to be complete. "
# About so many tokens in each of them.
SENTENCE_TOKENS = 17
CHUNK_TOKENS = 128


def measured(engine: Engine, row: int, asked: Passage) -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    began, worked = time.perf_counter(), time.process_time()
    spec = RowSpec(row, asked.tokens, Sampling(seed=0), 0, continuations=asked.continuations)
    engine.add(spec)
    while left := engine.remaining(row):
        engine.prefill([(row, min(CHUNK_TOKENS, left))])
    engine.remove(row)
    return time.perf_counter() - began, time.process_time() - worked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state-tokens", type=int, default=1000)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    loaded = EngineLoader(1)(str(default_folder()), lambda share: None)
    state = "".join(SENTENCE.format(n=n) for n in range(given.state_tokens // SENTENCE_TOKENS))
    questions = tuple(
        Question(f"q{n}", f"Was crate {n} complete?", ("yes", "no", "unclear"))
        for n in range(given.questions)
    )
    deciding = Deciding(loaded.tokenizer)
    passages = {
        count: deciding.build(DecisionRequest("d", None, state, questions[:count])).passages[0]
        for count in (1, given.questions)
    }
    times: dict[int, list[tuple[float, float]]] = {count: [] for count in passages}
    for number in range(2 * given.rounds):
        count = (1, given.questions)[number % 2]
        times[count].append(measured(loaded.engine, number, passages[count]))
    for count, asked in passages.items():
        clock, processor = (statistics.median(column) for column in zip(*times[count], strict=True))
        print(
            f"{count:3} questions: {asked.read_tokens} tokens, {clock:.2f} s, {processor:.2f} s cpu"
        )
    one, all_ = (
        statistics.median(processor for _, processor in times[count]) for count in passages
    )
    print(
        f"together {all_ / one:.2f} times one; "
        f"apart {given.questions * one / all_:.1f} times as much (cpu)"
    )


if __name__ == "__main__":
    main()
