"""Spoiled bodies against the whole app, over a scripted model and a virtual clock."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from headrace.http.app import create_app
from headrace.runtime.constraints import Grammar
from headrace.runtime.ports import RowMask
from headrace.runtime.settings import Settings
from headrace.runtime.testing.good_bodies import GOOD
from headrace.runtime.testing.inprocess import post
from headrace.runtime.testing.loader import ScriptedModel
from headrace.runtime.testing.mutants import bodies
from headrace.runtime.testing.scene import open_scene
from headrace.runtime.testing.script import Script
from headrace.runtime.testing.tokens import ScriptedTokenizer
from headrace.runtime.testing.verdicts import complaint

# After so many it is looked for what is left of them.
BETWEEN_LOOKS = 1000
MOST_BYTES = 100_000


class _Held:
    """A mask that a scripted row does not look at."""

    broken: str | None = None

    def fork(self) -> RowMask:
        return _Held()

    def consume(self, token: int) -> None:
        """Its script says what it says."""


class Compiling(ScriptedTokenizer):
    """Takes every grammar, so that requests with one come all the way."""

    def compile(self, grammar: Grammar) -> RowMask:
        return _Held()


def terse() -> ScriptedModel:
    """A model whose answers are short, and whose window soon is full."""
    scripts = {"": Script("Hello")}
    return ScriptedModel(tokenizer=Compiling(), scripts=scripts, context_window=512, load_seconds=0)


async def spoil(path: str, count: int, seed: int) -> Counter[int]:
    """Send so many bodies to a route, one after the other. Raises `AssertionError` for an answer
    that is none, or for anything that is left behind. Answers how often each status came."""
    statuses = Counter[int]()
    async with open_scene(terse(), Settings(max_body_bytes=MOST_BYTES)) as scene:
        app = create_app(scene.runtime)
        for number, body in enumerate(islice(bodies(GOOD[path], seed), count)):
            answer = await post(app, path, body)
            assert answer.complete, f"{number}: the answer to {body!r} does not end"
            wrong = complaint(path, answer.status, answer.headers["content-type"], answer.body)
            assert not wrong, f"{number}: {wrong} {answer.body[:300]!r} for {body[:2000]!r}"
            statuses[answer.status] += 1
            if number % BETWEEN_LOOKS == 0:
                await scene.baseline.settle()
        await scene.baseline.settle()
    return statuses
