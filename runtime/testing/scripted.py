"""A scripted engine behind the `Engine` port, and a record of everything that was asked of it.

It keeps the port's contract to the letter: what an owner may not ask is a `PortMisuse`, raised
and kept in `misuses`, so that an owner that swallows the exception is found out all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal, TypeAlias

import attrs

from headrace.runtime.ports import (
    CacheUse,
    Memory,
    PromptScores,
    RowFailed,
    RowRead,
    RowSpec,
    RowToken,
    StepResult,
    TokenScores,
)
from headrace.runtime.testing.device import ScriptedDevice
from headrace.runtime.testing.hooks import Hooks, StepKind
from headrace.runtime.testing.read import all_tokens, read_of
from headrace.runtime.testing.script import Script, ScriptChoice, ScriptedFault, play
from headrace.runtime.testing.tokens import ScriptedTokenizer

CallKind: TypeAlias = StepKind | Literal["add", "remove", "suspend", "close"]


class PortMisuse(AssertionError):
    """The owner of an engine asked what the port forbids. Always a bug of the owner."""


@attrs.frozen
class Call:
    """One call of an engine. `step` is the number of the step that ran it, or ran last before."""

    kind: CallKind
    step: int
    rows: tuple[int, ...] = ()
    # Prompt tokens of a prefill; 0 for the other kinds.
    tokens: int = 0


@attrs.frozen
class Timings:
    """How long steps take, in seconds on the device."""

    seconds_per_prefill_token: float = 0.001
    seconds_per_decode: float = 0.01


@attrs.define
class _Row:
    spec: RowSpec
    script: Script
    tokens: Iterator[int]
    # Prompt tokens still to prefill; the last one of the prompt never counts.
    remaining: int
    said: int = 0
    kv_bytes: int = 0
    # Prompt tokens that it did not have to compute.
    reused: int = 0
    # What it is to say before its script goes on, and what it said since it joined.
    forced: list[int] = attrs.field(factory=list)
    answer: list[int] = attrs.field(factory=list)


NOTHING_KEPT = CacheUse()


class ScriptedEngine:
    """One model and its batch, without a model. A row's tokens depend on the row alone."""

    def __init__(
        self,
        script_of: ScriptChoice,
        tokenizer: ScriptedTokenizer,
        device: ScriptedDevice,
        *,
        timings: Timings,
        kv_bytes_per_token: int,
        weights_bytes: int = 0,
        hooks: Hooks | None = None,
        mixes: bool = False,
    ) -> None:
        self.calls: list[Call] = []
        self.misuses: list[str] = []
        self.steps = 0
        self.closed = False
        self._script_of = script_of
        self._tokenizer = tokenizer
        self._device = device
        self._cache = NOTHING_KEPT
        # What it will say is to be done for the disk.
        self.pending_disk_work: list[Callable[[], str | None]] = []
        self._timings = timings
        self._kv_bytes_per_token = kv_bytes_per_token
        self._weights_bytes = weights_bytes
        self._hooks = hooks if hooks is not None else Hooks()
        self._mixes = mixes
        self._counts: dict[StepKind, int] = {"prefill": 0, "decode": 0}
        self._rows: dict[int, _Row] = {}
        # Prompts of all rows that ever were, by row.
        self._prompts: dict[int, tuple[int, ...]] = {}
        device.allocate(weights_bytes)

    # ---- the port --------------------------------------------------------------------

    def add(self, spec: RowSpec) -> None:
        self._check(len(spec.tokens) > 0, f"row {spec.row} has an empty prompt")
        self._check(not (spec.is_read and spec.max_tokens), f"row {spec.row} is read and says more")
        self._enter(spec, remaining=all_tokens(spec) if spec.is_read else len(spec.tokens) - 1)
        self._find(self._rows[spec.row])
        self._record("add", (spec.row, *spec.siblings))
        self._let_siblings_in(self._rows[spec.row])

    def remove(self, row: int) -> None:
        self._record("remove", (row,))
        self._drop(row)

    def suspend(self, row: int) -> RowSpec | None:
        self._record("suspend", (row,))
        suspended = self._rows.get(row)
        self._drop(row)
        if suspended is None or suspended.spec.is_read:
            return None
        spec, complete = suspended.spec, suspended.remaining == 0
        return attrs.evolve(
            spec,
            tokens=(*spec.tokens, *suspended.answer),
            resumed=spec.resumed + len(suspended.answer),
            forced=tuple(suspended.forced),
            siblings=() if complete else spec.siblings,
            scores_prompt=spec.scores_prompt and not complete,
        )

    def remaining(self, row: int) -> int:
        self._check(row in self._rows, f"row {row} is not in the batch")
        return self._rows[row].remaining

    def prefill(self, chunks: Sequence[tuple[int, int]]) -> StepResult:
        self._check_chunks(chunks)
        rows = [self._rows[row] for row, _ in chunks]
        count = sum(tokens for _, tokens in chunks)
        seconds = count * self._timings.seconds_per_prefill_token
        replaced = self._begin("prefill", rows, count, seconds)
        if replaced is not None:
            return replaced
        failed = self._faults(rows)
        scores, read = list[PromptScores](), list[RowRead]()
        for number, tokens in chunks:
            if number in self._rows:
                row = self._rows[number]
                scores += _prompt_scores(row, tokens)
                row.remaining -= tokens
                self._grow(row, tokens)
                self._let_siblings_in(row)
                if row.spec.is_read and not row.remaining:
                    read.append(read_of(row.spec))
        return StepResult(
            failed=failed,
            seconds=seconds,
            prefilled=count,
            read=tuple(read),
            prompt_scores=tuple(scores),
        )

    def can_mix(self, row: int) -> bool:
        spec = self._rows[row].spec
        plain = not spec.is_read and not spec.scores_prompt
        return self._mixes and plain and bool(self._saying())

    def mixed(self, row: int, count: int) -> StepResult:
        """A prefill step in which the complete rows have said something as well."""
        self._check(self.can_mix(row), f"row {row} cannot be computed beside others")
        saying = self._saying()
        result = self.prefill([(row, count)])
        for each in saying:
            each.said += 1
        failed = self._faults(saying)
        tokens = tuple(self._say(each) for each in saying if each.spec.row in self._rows)
        return attrs.evolve(result, tokens=tokens, failed=(*result.failed, *failed))

    def _saying(self) -> list[_Row]:
        """Those that say something next."""
        rows = [row for row in self._rows.values() if row.remaining == 0 and row.spec.max_tokens]
        for row in rows:
            self._check(row.said < row.spec.max_tokens, f"{_name(row)} is past its max_tokens")
        return rows

    def decode(self) -> StepResult:
        rows = self._saying()
        seconds = self._timings.seconds_per_decode
        replaced = self._begin("decode", rows, 0, seconds)
        if replaced is not None:
            return replaced
        for row in rows:
            row.said += 1
        failed = self._faults(rows)
        tokens = tuple(self._say(row) for row in rows if row.spec.row in self._rows)
        return StepResult(tokens=tokens, failed=failed, seconds=seconds)

    def force(self, row: int, tokens: Sequence[int]) -> None:
        if row in self._rows:
            self._rows[row].forced += tokens

    def kv_bytes(self) -> int:
        return sum(row.kv_bytes for row in self._rows.values())

    def limit_cache(self, max_bytes: int) -> None:
        """Keeps nothing; what a row finds is in its script."""

    def free_cache(self, nbytes: int) -> int:
        return 0

    def cache_use(self) -> CacheUse:
        return self._cache

    def keep_on_disk(self, folder: str, fingerprint: str, max_bytes: int) -> None:
        """Has nothing to keep."""

    def disk_work(self) -> Sequence[Callable[[], str | None]]:
        work, self.pending_disk_work = self.pending_disk_work, []
        return work

    def reused(self, row: int) -> int:
        self._check(row in self._rows, f"row {row} is not in the batch")
        return self._rows[row].reused

    def memory(self) -> Memory:
        return self._device.memory()

    def close(self) -> None:
        self._record("close")
        for row in tuple(self._rows):
            self._drop(row)
        self._device.free(self._weights_bytes)
        self._cache = NOTHING_KEPT
        self.closed = True

    # ---- what tests read -------------------------------------------------------------

    @property
    def rows(self) -> tuple[int, ...]:
        """Rows that are in the batch now."""
        return tuple(self._rows)

    @property
    def known_rows(self) -> tuple[int, ...]:
        """Rows that were ever in the batch, in the order in which they joined."""
        return tuple(self._prompts)

    def row_of(self, text: str) -> int:
        """The one row, present or past, whose prompt holds `text`."""
        prompts = self._prompts.items()
        found = [row for row, tokens in prompts if text in self._tokenizer.text(tokens)]
        if len(found) != 1:
            raise LookupError(f"{len(found)} rows have {text!r} in their prompt")
        return found[0]

    def steps_of(self, row: int) -> tuple[int, ...]:
        """Numbers of the steps that computed something for the row."""
        steps = (call for call in self.calls if call.kind in ("prefill", "decode"))
        return tuple(call.step for call in steps if row in call.rows)

    def removed_after(self, row: int) -> int | None:
        """The number of the last step before the row's removal; None while it was not removed."""
        removes = (call for call in self.calls if call.kind == "remove" and row in call.rows)
        return next((call.step for call in removes), None)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self._rows)} rows, {self.kv_bytes()} KV bytes"
        return f"<ScriptedEngine {state} | {self.steps} steps>"

    # ---- inside ----------------------------------------------------------------------

    def _begin(
        self, kind: StepKind, rows: Iterable[_Row], tokens: int, seconds: float
    ) -> StepResult | None:
        self.steps += 1
        self._counts[kind] += 1
        self._record(kind, tuple(row.spec.row for row in rows), tokens)
        self._device.spend(seconds)
        return self._hooks.fire(self.steps, kind, self._counts[kind])

    def _faults(self, rows: Sequence[_Row]) -> tuple[RowFailed, ...]:
        """Carry out what the rows' scripts say about the token they are at."""
        if any(row.script.raise_at == row.said for row in rows):
            raise ScriptedFault("the script raises here")
        if any(row.script.hang_at == row.said for row in rows):
            self._device.hang()
        failing = [row.spec.row for row in rows if row.script.fail_at == row.said]
        for number in failing:
            self._drop(number)
        return tuple(RowFailed(number, "the script fails here") for number in failing)

    def _enter(self, spec: RowSpec, *, remaining: int) -> None:
        self._check(spec.row not in self._prompts, f"row {spec.row} was added twice")
        # One that goes on does so where it was in the script of its prompt.
        prompt = attrs.evolve(spec, tokens=spec.tokens[: len(spec.tokens) - spec.resumed])
        script = self._script_of(prompt)
        tokens = islice(play(script, prompt, self._tokenizer), spec.resumed, None)
        row = _Row(spec, script, tokens, remaining, said=spec.resumed, forced=[*spec.forced])
        self._rows[spec.row] = row
        self._prompts[spec.row] = () if spec.resumed else spec.tokens

    def _find(self, row: _Row) -> None:
        """Let the row begin behind what its script says is there."""
        row.reused = min(row.script.cached_tokens, row.remaining)
        row.remaining -= row.reused
        self._grow(row, row.reused)
        cache, found = self._cache, row.reused > 0
        self._cache = attrs.evolve(
            cache,
            hits=cache.hits + found,
            misses=cache.misses + (not found),
            tokens_reused=cache.tokens_reused + row.reused,
        )

    def _let_siblings_in(self, row: _Row) -> None:
        """Rows of the same prompt, once it is complete; each has its KV."""
        if row.remaining == 0:
            for choice, number in enumerate(row.spec.siblings, row.spec.choice + 1):
                spec = attrs.evolve(row.spec, row=number, choice=choice, siblings=())
                self._enter(spec, remaining=0)
                self._grow_bytes(self._rows[number], row.kv_bytes)

    def _say(self, row: _Row) -> RowToken:
        self._grow(row, 1)
        token = row.forced.pop(0) if row.forced else next(row.tokens)
        row.answer.append(token)
        return RowToken(row.spec.row, token, _scores(row.spec.logprobs, token))

    def _grow(self, row: _Row, tokens: int) -> None:
        self._grow_bytes(row, tokens * self._kv_bytes_per_token)

    def _grow_bytes(self, row: _Row, grown: int) -> None:
        self._device.allocate(grown)
        row.kv_bytes += grown

    def _drop(self, number: int) -> None:
        row = self._rows.pop(number, None)
        if row is not None:
            self._device.free(row.kv_bytes)

    def _record(self, kind: CallKind, rows: tuple[int, ...] = (), tokens: int = 0) -> None:
        self._check(not self.closed, f"{kind} after close")
        self.calls.append(Call(kind, self.steps, rows, tokens))

    def _check_chunks(self, chunks: Sequence[tuple[int, int]]) -> None:
        numbers = [row for row, _ in chunks]
        self._check(bool(chunks), "a prefill without rows")
        self._check(len(set(numbers)) == len(numbers), f"a row twice in one prefill: {numbers}")
        for row, tokens in chunks:
            left = self.remaining(row)
            self._check(0 < tokens <= left, f"row {row} has {left} tokens to prefill, not {tokens}")
            whole = len(chunks) == 1 or tokens == left
            self._check(whole, f"row {row} is not prefilled to its end beside others")

    def _check(self, condition: bool, misuse: str) -> None:
        if not condition:
            self.misuses.append(misuse)
            raise PortMisuse(misuse)


def _prompt_scores(row: _Row, count: int) -> list[PromptScores]:
    if not row.spec.scores_prompt:
        return []
    first = len(row.spec.tokens) - row.remaining
    scores = [_scores(row.spec.logprobs, t) for t in row.spec.tokens[first : first + count]]
    return [PromptScores(row.spec.row, tuple(score for score in scores if score), first)]


def _scores(alternatives: int | None, token: int) -> TokenScores | None:
    """Scores that tell tokens apart; the likeliest others are the lowest ids."""
    if alternatives is None:
        return None
    top = tuple((number, -1.0 - number) for number in range(alternatives))
    return TokenScores(-(1 + token) / 256, top)


def _name(row: _Row) -> str:
    return f"row {row.spec.row}"
