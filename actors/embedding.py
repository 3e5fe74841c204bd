"""The sequences that texts are embedded as, each within the model's window."""

from __future__ import annotations

from headrace.actors.reading import BuiltReading, Passage
from headrace.runtime.contracts import ModelInfo, Prompt, Reading
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.ports import Pooling, RowRead, Tokenizer
from headrace.runtime.readings import Embedded, EmbeddingRequest, Input


def build_embedding(
    request: EmbeddingRequest, info: ModelInfo, tokenizer: Tokenizer
) -> BuiltReading:
    """Raises `RequestError` (invalid_token_id, context_length_exceeded), naming the input."""
    pooling = _pooling(request, info)
    before = _instruction(request, info)

    def passage(index: int, given: Input) -> Passage:
        path = "input" if len(request.inputs) == 1 else f"input[{index}]"
        if isinstance(given, str):
            prompt = Prompt(text=before + given)
        else:
            prompt = Prompt(tokens=given)
        return Passage(_tokens(prompt, path, info, tokenizer), pooling=pooling)

    return BuiltReading(
        tuple(passage(index, given) for index, given in enumerate(request.inputs)), _answer
    )


def _answer(index: int, read: RowRead) -> list[Reading]:
    return [Embedded(index, read.vector)]


def _pooling(request: EmbeddingRequest, info: ModelInfo) -> Pooling:
    """What the model was made for, else what it is to be used as."""
    if info.embedding is not None:
        return Pooling(info.embedding.pooling, info.embedding.normalized, request.dimensions)
    assert request.pooling is not None, "the model was asked for what it does not serve"
    return Pooling(request.pooling)


def _instruction(request: EmbeddingRequest, info: ModelInfo) -> str:
    """What comes before each text."""
    if request.instruction is None or info.embedding is None:
        return ""
    begin, end = info.embedding.instruction or ("", "")
    return f"{begin}{request.instruction}{end}"


def _tokens(prompt: Prompt, path: str, info: ModelInfo, tokenizer: Tokenizer) -> tuple[int, ...]:
    try:
        tokens = tokenizer.build(prompt)
    except RequestError as error:
        raise RequestError(error.code, error.info.message, param=path) from None
    limit = info.context_window
    if len(tokens) > limit:
        raise RequestError(
            Code.CONTEXT_LENGTH_EXCEEDED,
            f"This model's maximum context length is {limit} tokens, but {path} has "
            f"{len(tokens)} tokens (context_length_exceeded).",
            param=path,
            details={
                "prompt_tokens": len(tokens),
                "limit_tokens": limit,
                "context_window": limit,
                "limited_by": "context_window",
            },
        )
    return tokens
