"""Whether a model can do what a request asks for, as far as its files tell. Pure."""

from __future__ import annotations

from headrace.runtime.contracts import InferenceRequest, ModelInfo, Request
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.readings import DecisionRequest, EmbeddingRequest


def check_serves(info: ModelInfo, request: Request) -> None:
    """Raises `RequestError` (unsupported_capability, unsupported_parameter, invalid_value)."""
    match request:
        case InferenceRequest():
            _check_writes(info)
        case DecisionRequest():
            _check_writes(info)
            if not info.has_chat_template:
                raise _unserved(f"{info.id!r} has no chat template, so it cannot be asked")
        case EmbeddingRequest():
            if info.embedding is None and request.pooling is None:
                raise _unserved(f"{info.id!r} makes no embeddings")
            _check_vectors(info, request)


def _check_writes(info: ModelInfo) -> None:
    if info.embedding is not None:
        raise _unserved(f"{info.id!r} makes embeddings and generates no text")


def _check_vectors(info: ModelInfo, request: EmbeddingRequest) -> None:
    traits = info.embedding
    if request.instruction is not None and (traits is None or traits.instruction is None):
        raise _without("instruction", f"{info.id!r} has no form for instructions")
    if request.dimensions is None:
        return
    if traits is None or not traits.cuts:
        raise _without("dimensions", f"the vectors of {info.id!r} cannot be cut")
    if request.dimensions > traits.width:
        text = f"dimensions must be at most {traits.width}."
        raise RequestError(Code.INVALID_VALUE, text, param="dimensions")


def _unserved(reason: str) -> RequestError:
    text = f"The model cannot serve this route: {reason}."
    return RequestError(Code.UNSUPPORTED_CAPABILITY, text, param="model")


def _without(field: str, reason: str) -> RequestError:
    text = f"{field} is not supported here: {reason}."
    return RequestError(Code.UNSUPPORTED_PARAMETER, text, param=field)
