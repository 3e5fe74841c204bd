"""What a request of any kind is made into before it joins the batch. Runs on the text thread."""

from __future__ import annotations

from functools import cached_property

from headrace.actors.answering import Answering, Built
from headrace.actors.deciding import Deciding
from headrace.actors.embedding import build_embedding
from headrace.actors.reading import BuiltReading
from headrace.runtime.contracts import InferenceRequest, ModelInfo, Request
from headrace.runtime.ports import Tokenizer
from headrace.runtime.readings import DecisionRequest, EmbeddingRequest


class Building:
    """Builds the requests of one model."""

    def __init__(self, tokenizer: Tokenizer, info: ModelInfo) -> None:
        self._tokenizer = tokenizer
        self._info = info
        self._answering = Answering(tokenizer, info.defaults)

    @cached_property
    def _deciding(self) -> Deciding:
        # Looks at some hundred pieces of text; most models are never asked to decide.
        return Deciding(self._tokenizer)

    def build(self, request: Request) -> Built | BuiltReading:
        """Raises `RequestError`: what is wrong with the prompt."""
        match request:
            case InferenceRequest():
                return self._answering.build(request)
            case EmbeddingRequest():
                return build_embedding(request, self._info, self._tokenizer)
            case DecisionRequest():
                return self._deciding.build(request)
