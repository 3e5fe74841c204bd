"""Which routes answer errors in which shape, and hints for paths that are nearly right."""

from __future__ import annotations

from collections.abc import Callable

from headrace.http.wire.errors import Family

SHOWN_CHARACTERS = 200


MODELS = "/v1/models"
JEV = "/v1/systemone"
DECISIONS = (JEV, "/v1/decisions")


def family_of(path: str, *, versioned: bool = False) -> Family:
    """The envelope of a path, whether or not there is such a route (wire contract 14.2).

    `versioned` requests name a version of Anthropic's API; the models are told in its shape too.
    """
    # A doubled prefix comes from a base URL that ends in /v1; its client is still the same.
    trimmed = path.removeprefix("/v1") if path.startswith("/v1/v1/") else path
    if trimmed == "/v1/messages" or trimmed.startswith("/v1/messages/"):
        return "anthropic"
    if versioned and (trimmed == MODELS or trimmed.startswith(f"{MODELS}/")):
        return "anthropic"
    if trimmed == JEV:
        return "jev"
    if trimmed == "/api/jobs" or trimmed.startswith("/api/jobs/"):
        return "jobs"
    return "openai"


def decides(path: str) -> bool:
    """Whether the clients of a path look for the request's id under a further name."""
    return path.removesuffix("/") in DECISIONS


def not_found(method: str, path: str, exists: Callable[[str], bool]) -> str:
    """The message for an unknown path. A path that one edit would make right gets a hint."""
    message = f"There is nothing at {method} {path[:SHOWN_CHARACTERS]}."
    if path.startswith("/v1/v1/"):
        return f"{message} The base URL must not end in /v1."
    if exists(f"/v1{path}"):
        return f"{message} Did you mean /v1{path}?"
    return message
