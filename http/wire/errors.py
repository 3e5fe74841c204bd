"""From a failure's code to what a client sees: status, type, headers and envelope.

This table is the only place that knows a status. It is pure: no request, no clock. Nothing of
the inside gets out here, because an `ErrorInfo` holds nothing but what may be shown.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import attrs

from headrace.runtime.errors import Code, ErrorInfo

# Which envelope a route answers errors in (wire contract 14.2).
Family: TypeAlias = Literal["openai", "anthropic", "jobs", "jev"]

INVALID = "invalid_request_error"
CHALLENGE = 'Bearer realm="headrace"'
# Where a retry makes sense but nobody knows how soon.
DEFAULT_RETRY_SECONDS = 1.0


@attrs.frozen
class Condition:
    """One row of wire contract 14.1.

    `retry` sends `Retry-After`; `final` tells clients that retry by themselves not to.
    """

    status: int
    type: str = INVALID
    anthropic: str = INVALID
    retry: bool = False
    final: bool = False


_INVALID_FIELD = Condition(400)
_MEDIA = Condition(400, "media_refused")
_NO_ROOM = Condition(400, "memory_admission")
_CREDENTIALS = Condition(401, INVALID, "authentication_error")
_FORBIDDEN = Condition(403, "forbidden", "permission_error")
_NOT_FOUND = Condition(404, INVALID, "not_found_error")
_MEDIA_TYPE = Condition(415)
_BROKEN = Condition(500, "server_error", "api_error")
_NOT_BUILT = Condition(501, "not_implemented", "api_error", final=True)

CONDITIONS: dict[Code, Condition] = {
    Code.INVALID_HTTP: _INVALID_FIELD,
    Code.INVALID_JSON: _INVALID_FIELD,
    Code.INVALID_TYPE: _INVALID_FIELD,
    Code.INVALID_VALUE: _INVALID_FIELD,
    Code.MISSING_FIELD: _INVALID_FIELD,
    Code.UNSUPPORTED_PARAMETER: _INVALID_FIELD,
    Code.UNSUPPORTED_CONTENT_PART: _INVALID_FIELD,
    Code.UNSUPPORTED_INPUT_ITEM: _INVALID_FIELD,
    Code.PREVIOUS_RESPONSE_NOT_USABLE: _INVALID_FIELD,
    Code.NOT_STREAMABLE: _INVALID_FIELD,
    Code.INVALID_TOKEN_ID: _INVALID_FIELD,
    Code.UNSUPPORTED_QUESTION: _INVALID_FIELD,
    Code.TOO_MANY_OPTIONS: _INVALID_FIELD,
    Code.INVALID_SCHEMA: _INVALID_FIELD,
    Code.INVALID_GRAMMAR: _INVALID_FIELD,
    Code.CONFLICTING_CONSTRAINTS: _INVALID_FIELD,
    Code.INVALID_TOOL_CHOICE: _INVALID_FIELD,
    Code.TEMPLATE_ERROR: _INVALID_FIELD,
    Code.UNSUPPORTED_CAPABILITY: _INVALID_FIELD,
    Code.ADAPTER_NOT_FOUND: Condition(400, final=True),
    Code.DOES_NOT_FIT: _INVALID_FIELD,
    Code.IN_USE: _INVALID_FIELD,
    Code.VISION_TOWER_ABSENT: _MEDIA,
    Code.AUDIO_TOWER_UNAVAILABLE: _MEDIA,
    Code.VIDEO_UNSUPPORTED: _MEDIA,
    Code.CONTEXT_LENGTH_EXCEEDED: _NO_ROOM,
    Code.CONTEXT_OVER_BUDGET: _NO_ROOM,
    Code.MISSING_API_KEY: _CREDENTIALS,
    Code.INVALID_API_KEY: _CREDENTIALS,
    Code.DUPLICATE_CREDENTIALS: _CREDENTIALS,
    Code.INVALID_HOST: _FORBIDDEN,
    Code.CROSS_ORIGIN: _FORBIDDEN,
    Code.CROSS_SITE: _FORBIDDEN,
    Code.NOT_FOUND: _NOT_FOUND,
    Code.MODEL_NOT_FOUND: _NOT_FOUND,
    Code.REQUEST_NOT_FOUND: _NOT_FOUND,
    Code.RESPONSE_NOT_FOUND: _NOT_FOUND,
    Code.PREVIOUS_RESPONSE_NOT_FOUND: _NOT_FOUND,
    Code.ITEM_NOT_FOUND: _NOT_FOUND,
    Code.METHOD_NOT_ALLOWED: Condition(405),
    Code.REQUEST_TIMEOUT: Condition(408, "timeout_error", "timeout_error"),
    Code.BODY_TOO_LARGE: Condition(413, INVALID, "request_too_large"),
    Code.UNSUPPORTED_MEDIA_TYPE: _MEDIA_TYPE,
    Code.UNSUPPORTED_ENCODING: _MEDIA_TYPE,
    Code.HEAD_TOO_LARGE: Condition(431),
    Code.QUEUE_FULL: Condition(429, "resource_admission", "rate_limit_error", retry=True),
    Code.CLIENT_LIMIT: Condition(429, "resource_admission", "rate_limit_error", retry=True),
    Code.REQUEST_CANCELLED: Condition(499, "request_cancelled"),
    Code.GENERATION_FAILED: _BROKEN,
    Code.INTERNAL_ERROR: _BROKEN,
    Code.UNSUPPORTED_EXECUTION: _NOT_BUILT,
    Code.NOT_IMPLEMENTED: _NOT_BUILT,
    Code.ENGINE_UNAVAILABLE: Condition(502, "engine_unavailable", "api_error", retry=True),
    Code.LOAD_FAILED: Condition(502, "model_load_failed", "api_error", final=True),
    Code.MODEL_UNLOADED: Condition(503, "model_unavailable", "overloaded_error", retry=True),
    Code.DRAINING: Condition(503, "draining", "overloaded_error", retry=True),
    Code.CLOSED: Condition(503, "server_closing", "overloaded_error", retry=True),
    Code.QUEUE_TIMEOUT: Condition(503, "resource_admission", "overloaded_error", retry=True),
    Code.NO_CURRENT_MODEL: Condition(503, "model_unavailable", "overloaded_error", final=True),
    Code.REQUEST_DEADLINE: Condition(504, "timeout_error", "timeout_error", final=True),
}


# What is wrong with a field, which Jev's clients know by another status.
OF_FIELDS = frozenset(
    {
        Code.INVALID_TYPE,
        Code.INVALID_VALUE,
        Code.MISSING_FIELD,
        Code.UNSUPPORTED_PARAMETER,
        Code.UNSUPPORTED_CONTENT_PART,
        Code.UNSUPPORTED_QUESTION,
        Code.TOO_MANY_OPTIONS,
        Code.VISION_TOWER_ABSENT,
        Code.AUDIO_TOWER_UNAVAILABLE,
        Code.VIDEO_UNSUPPORTED,
    }
)


def status_of(info: ErrorInfo, family: Family) -> int:
    """The HTTP status of a failure on a route of this family."""
    return 422 if family == "jev" and info.code in OF_FIELDS else condition(info).status


def condition(info: ErrorInfo) -> Condition:
    """The row for a failure. A worker that is given up for good is not worth a retry."""
    row = CONDITIONS[info.code]
    exhausted = (info.details or {}).get("state") == "exhausted"
    return attrs.evolve(row, retry=False, final=True) if exhausted else row


def error_object(info: ErrorInfo) -> dict[str, Any]:
    """The four members that every OpenAI-shaped error has, in frames and in bodies."""
    return {
        "message": info.message,
        "type": condition(info).type,
        "param": info.param,
        "code": info.code.value,
    }


def envelope(info: ErrorInfo, family: Family, request_id: str) -> dict[str, Any]:
    """The JSON body of a failure in the shape of its family of routes."""
    details = {} if info.details is None else {"details": info.details}
    if family == "jobs":
        return {"ok": False, "error": info.message}
    if family in ("openai", "jev"):
        return {"error": error_object(info) | details}
    error = error_object(info) | {"type": condition(info).anthropic} | details
    error["message"] = _anthropic_message(info)
    return {"type": "error", "error": error, "request_id": request_id}


def _anthropic_message(info: ErrorInfo) -> str:
    """Its clients know by these words that a conversation has grown too long, and shorten it."""
    tokens, most = ((info.details or {}).get(n) for n in ("prompt_tokens", "limit_tokens"))
    if condition(info) is not _NO_ROOM or tokens is None or most is None:
        return info.message
    return f"prompt is too long: {tokens} tokens > {most} maximum. {info.message}"


def headers(info: ErrorInfo) -> dict[str, str]:
    """The headers that belong to a failure, whatever its family."""
    row = condition(info)
    found: dict[str, str] = {}
    if row.retry:
        found |= retry_headers(info.retry_after_seconds or DEFAULT_RETRY_SECONDS)
    if row.final:
        found["x-should-retry"] = "false"
    if row.status == 401:
        found["WWW-Authenticate"] = CHALLENGE
    return found


def retry_headers(seconds: float) -> dict[str, str]:
    """Whole seconds, rounded up, for everybody and milliseconds for the clients that read them."""
    return {
        "Retry-After": str(math.ceil(seconds)),
        "retry-after-ms": str(math.ceil(seconds * 1000)),
    }


def internal_error(request_id: str) -> ErrorInfo:
    """All that a client learns of a failure that nobody foresaw."""
    return ErrorInfo(
        Code.INTERNAL_ERROR, f"The server failed on this request; its id is {request_id}."
    )
