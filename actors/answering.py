"""How a request's prompt is built and how its answers are to be read. Runs on the text thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from headrace.actors.choice import Pipeline
from headrace.actors.text.answer_pipeline import AnswerPipeline
from headrace.actors.text.choice import choose_markup
from headrace.actors.text.markup import Markup
from headrace.actors.text.parser import AnswerParser
from headrace.actors.text.pipeline import TextPipeline
from headrace.runtime.contracts import InferenceRequest, Sampling
from headrace.runtime.ports import RowMask, Tokenizer


@attrs.frozen
class Built:
    """A prompt that is ready, with one pipeline for each answer to it."""

    tokens: tuple[int, ...]
    sampling: Sampling
    pipelines: tuple[Pipeline, ...]
    mask: RowMask | None = None
    # The answer ends after so many tool calls; None: it may go on.
    max_calls: int | None = None


class Answering:
    """What one model's prompts and answers are made of."""

    def __init__(self, tokenizer: Tokenizer, defaults: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer
        self._defaults = defaults
        self._markup: Markup | None = choose_markup(tokenizer.template, tokenizer.has_token)

    def build(self, request: InferenceRequest) -> Built:
        """Raises `RequestError`: what is wrong with the prompt."""
        tokens = self._tokenizer.build(request.prompt)
        pipelines = tuple(self._pipeline(request) for _ in range(request.n))
        single = request.tools is not None and not request.tools.parallel
        sampling = self._sampling(request)
        return Built(tokens, sampling, pipelines, max_calls=1 if single else None)

    def _sampling(self, request: InferenceRequest) -> Sampling:
        """What the client set, else what the model's makers advise."""
        advised = {
            name: value for name, value in self._defaults.items() if name not in request.given
        }
        return attrs.evolve(request.sampling, **advised)

    def _pipeline(self, request: InferenceRequest) -> Pipeline:
        """The plainest one that will do: most rows have neither markup nor scores."""
        decoder = self._tokenizer.decoder(request.prompt)
        parser = self._parser(request)
        if parser is None and request.logprobs is None:
            return TextPipeline(decoder, request.stop)
        token_bytes = None if request.logprobs is None else self._tokenizer.token_bytes
        return AnswerPipeline(decoder, request.stop, parser, token_bytes=token_bytes)

    def _parser(self, request: InferenceRequest) -> AnswerParser | None:
        if self._markup is None or request.prompt.messages is None:
            return None
        schemas = {}
        if request.tools is not None and request.tools.choice != "none":
            schemas = {tool.name: tool.parameters or {} for tool in request.tools.tools}
        last = request.prompt.messages[-1]
        begun = last.content if request.prompt.continue_final else ""
        start = self._markup.start(self._tokenizer.render(request.prompt), begun)
        if request.thinking.enabled is False:
            start = "after"
        return AnswerParser(self._markup, schemas, start)
