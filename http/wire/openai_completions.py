"""POST /v1/completions: from its body to requests, and from events to its answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from headrace.http.wire.answer import Answer, ChoiceAnswer
from headrace.http.wire.asking import Stamp
from headrace.http.wire.completion_stream import CompletionStream
from headrace.http.wire.constraints import FORMATS, read_constraint
from headrace.http.wire.fields import Fields, unsupported, wrong_value
from headrace.http.wire.openai_answer import Chunks, Head, finish_members, usage_object
from headrace.http.wire.openai_fields import (
    COMPLETION_REFUSED,
    COMPLETION_WITHOUT_EFFECT,
    read_cap,
    read_choices,
    read_include_usage,
)
from headrace.http.wire.openai_logprobs import LegacyScores
from headrace.http.wire.prompts import is_list_of_one, read_prompts
from headrace.http.wire.sampling import read_sampling
from headrace.http.wire.shared_fields import AFFINITY, check, check_adapter
from headrace.http.wire.stops import read_stops
from headrace.http.wire.warned import warning_member
from headrace.runtime.contracts import Event, InferenceRequest, Prompt

OBJECT = "text_completion"
MOST_ALTERNATIVES = 5
# Prompts times choices.
MOST_ANSWERS = 128
# An odd number without pattern: prompts whose draws are nobody's choice must not draw alike.
SEED_STRIDE = 0x9E3779B97F4A7C15


@attrs.frozen
class Completion:
    """One completion that was asked for. `echoes` are the texts that its choices begin with."""

    requests: tuple[InferenceRequest, ...]
    response_id: str
    created: int
    include_usage: bool
    echoes: tuple[str, ...]
    # Where the prompt stands if there is but one.
    prompt_field: str = "prompt"

    @property
    def _alternatives(self) -> int | None:
        return self.requests[0].logprobs

    def stream(self) -> CompletionStream:
        chunks = Chunks(self._head(), include_usage=self.include_usage)
        scores = [LegacyScores(self._alternatives or 0, len(echo)) for echo in self.echoes]
        return CompletionStream(chunks, self.echoes, scores)

    def complete(self, events: Iterable[Event]) -> dict[str, Any]:
        answer = Answer.of(events, len(self.echoes))
        return {
            **self._head().members(answer.accepted),
            "choices": [self._choice(choice) for choice in answer.choices],
            "usage": usage_object(answer.finished.usage),
            **warning_member(answer.warnings),
        }

    def _head(self) -> Head:
        return Head(self.response_id, OBJECT, self.created)

    def _choice(self, choice: ChoiceAnswer) -> dict[str, Any]:
        echo = self.echoes[choice.index]
        scores = None
        if self._alternatives is not None:
            scores = LegacyScores(self._alternatives, len(echo)).take(choice.scored)
        return {
            "index": choice.index,
            "text": echo + choice.text,
            "logprobs": scores,
            **finish_members(choice.ended),
        }


def parse(body: dict[str, Any], stamp: Stamp) -> Completion:
    """Read a body. Raises `RequestError`, which names the field, for all that cannot be done."""
    fields = Fields(body)
    include_usage = read_include_usage(fields)
    check(fields, AFFINITY, COMPLETION_WITHOUT_EFFECT, COMPLETION_REFUSED)
    check_adapter(fields)
    _check_format(fields)
    prompts = read_prompts(fields)
    first = _request(fields, prompts[0], stamp)
    if len(prompts) * first.n > MOST_ANSWERS:
        raise wrong_value(fields.path("prompt"), f"times n must be at most {MOST_ANSWERS}")
    requests = tuple(_for_prompt(first, index, prompt) for index, prompt in enumerate(prompts))
    echo = fields.boolean("echo") and not first.echo
    return Completion(
        requests,
        f"cmpl-{stamp.token}",
        stamp.created,
        first.stream and include_usage,
        tuple((prompt.text or "") if echo else "" for prompt in prompts for _ in range(first.n)),
        fields.path("prompt[0]" if is_list_of_one(fields.value("prompt")) else "prompt"),
    )


def _request(fields: Fields, prompt: Prompt, stamp: Stamp) -> InferenceRequest:
    """What is asked for the first prompt."""
    sampling, given = read_sampling(fields, fresh_seed=stamp.seed)
    choices = read_choices(fields, stamp.most_choices)
    if fields.integer("best_of") not in (None, choices):
        raise unsupported(fields.path("best_of"))
    logprobs = fields.integer("logprobs", 0, MOST_ALTERNATIVES)
    return InferenceRequest(
        id=stamp.request_id,
        model=fields.text("model") or None,
        prompt=prompt,
        sampling=sampling,
        given=given,
        max_tokens=read_cap(fields, least=0),
        stop=read_stops(fields, "stop"),
        stream=fields.boolean("stream") or False,
        route=stamp.route,
        n=choices,
        logprobs=logprobs,
        constraint=read_constraint(fields),
        echo=_echoed_below(fields, prompt, logprobs),
    )


def _echoed_below(fields: Fields, prompt: Prompt, logprobs: int | None) -> bool:
    """Whether the echo must come from the model: its text is known here, ids and scores are not."""
    echo = fields.boolean("echo") or False
    return echo and (prompt.tokens is not None or logprobs is not None)


def _for_prompt(first: InferenceRequest, index: int, prompt: Prompt) -> InferenceRequest:
    """The same for another prompt. A seed that nobody chose is another one for each."""
    sampling = first.sampling
    if "seed" not in first.given:
        seed = (sampling.seed + index * SEED_STRIDE) % 2**64
        sampling = attrs.evolve(sampling, seed=seed)
    return attrs.evolve(first, prompt=prompt, sampling=sampling)


def _check_format(fields: Fields) -> None:
    """Formats that are none of ours are refused by name; there may be many."""
    wanted = fields.object("response_format")
    if wanted is not None and wanted.required_text("type") not in FORMATS:
        raise unsupported(wanted.path("type"))
