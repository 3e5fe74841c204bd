"""What can go wrong, as values and as exceptions.

Two families. A `RequestError` is an answer: it belongs to one request, names one condition of
the wire contract by its code, and may cross a process border as an `ErrorInfo`. The kernel
errors say that a part of the runtime is gone or refuses work; they are turned into answers
where a request meets them.
"""

from __future__ import annotations

import enum
from typing import Any

import attrs


class Code(enum.StrEnum):
    """The conditions a request can end with. The value is the `code` on the wire.

    The HTTP status, the `type` and the headers of each live in one table at the edge; nothing
    below the edge knows a status.
    """

    INVALID_HTTP = "invalid_http"
    HEAD_TOO_LARGE = "head_too_large"
    INVALID_JSON = "invalid_json"
    INVALID_TYPE = "invalid_type"
    INVALID_VALUE = "invalid_value"
    MISSING_FIELD = "missing_field"
    UNSUPPORTED_PARAMETER = "unsupported_parameter"
    UNSUPPORTED_CONTENT_PART = "unsupported_content_part"
    UNSUPPORTED_INPUT_ITEM = "unsupported_input_item"
    VISION_TOWER_ABSENT = "vision-tower-absent"
    AUDIO_TOWER_UNAVAILABLE = "audio-tower-unavailable"
    VIDEO_UNSUPPORTED = "video-unsupported"
    INVALID_TOKEN_ID = "invalid_token_id"
    UNSUPPORTED_QUESTION = "unsupported_question"
    TOO_MANY_OPTIONS = "too_many_options"
    INVALID_SCHEMA = "invalid_schema"
    INVALID_GRAMMAR = "invalid_grammar"
    CONFLICTING_CONSTRAINTS = "conflicting_constraints"
    INVALID_TOOL_CHOICE = "invalid_tool_choice"
    TEMPLATE_ERROR = "template_error"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    CONTEXT_OVER_BUDGET = "context_over_budget"
    UNSUPPORTED_CAPABILITY = "unsupported_capability"
    DOES_NOT_FIT = "does-not-fit"
    IN_USE = "in-use"
    NOT_FOUND = "not_found"
    MODEL_NOT_FOUND = "model_not_found"
    ADAPTER_NOT_FOUND = "adapter_not_found"
    REQUEST_NOT_FOUND = "request_not_found"
    RESPONSE_NOT_FOUND = "response_not_found"
    PREVIOUS_RESPONSE_NOT_FOUND = "previous_response_not_found"
    PREVIOUS_RESPONSE_NOT_USABLE = "previous_response_not_usable"
    ITEM_NOT_FOUND = "item_not_found"
    NOT_STREAMABLE = "not_streamable"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    MISSING_API_KEY = "missing_api_key"
    INVALID_API_KEY = "invalid_api_key"
    DUPLICATE_CREDENTIALS = "duplicate_credentials"
    INVALID_HOST = "invalid_host"
    CROSS_ORIGIN = "cross_origin"
    CROSS_SITE = "cross_site"
    REQUEST_TIMEOUT = "request_timeout"
    BODY_TOO_LARGE = "body_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    QUEUE_FULL = "queue_full"
    CLIENT_LIMIT = "client_limit"
    QUEUE_TIMEOUT = "queue_timeout"
    REQUEST_CANCELLED = "request_cancelled"
    REQUEST_DEADLINE = "request_deadline"
    GENERATION_FAILED = "generation_failed"
    INTERNAL_ERROR = "internal_error"
    UNSUPPORTED_EXECUTION = "unsupported_execution"
    NOT_IMPLEMENTED = "not_implemented"
    ENGINE_UNAVAILABLE = "engine_unavailable"
    LOAD_FAILED = "load-failed"
    MODEL_UNLOADED = "model_unloaded"
    DRAINING = "draining"
    CLOSED = "closed"
    NO_CURRENT_MODEL = "no_current_model"


@attrs.frozen
class ErrorInfo:
    """A request's failure as plain data: what a sink carries and what a frame holds."""

    code: Code
    message: str
    param: str | None = None
    details: dict[str, Any] | None = None
    # Seconds after which trying again makes sense; None where it does not.
    retry_after_seconds: float | None = None


class RequestError(Exception):
    """A typed failure of one request. `info` holds everything that may be shown to its client."""

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        param: str | None = None,
        details: dict[str, Any] | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.info = ErrorInfo(code, message, param, details, retry_after_seconds)

    @classmethod
    def of(cls, info: ErrorInfo) -> RequestError:
        error = cls(info.code, info.message)
        error.info = info
        return error

    @property
    def code(self) -> Code:
        return self.info.code


class KernelError(Exception):
    """Base of what the kernel itself raises."""


class ActorDied(KernelError):
    """The actor asked is gone, or went before it answered. Its name is the argument."""


class RestartLimit(KernelError):
    """A supervised child failed more often than its budget allows."""


class CleanupOverran(KernelError):
    """An owner did not confirm an end within its bound; it is to be treated as hung."""


class SettingError(ValueError):
    """A setting is unknown or its value is out of range; the message names it."""
