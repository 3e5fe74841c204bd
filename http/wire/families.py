"""Which routes answer errors in which shape, and hints for paths that are nearly right."""

from __future__ import annotations

from collections.abc import Callable

from headrace.http.wire.errors import Family

SHOWN_CHARACTERS = 200


def family_of(path: str) -> Family:
    """The envelope of a path, whether or not there is such a route (wire contract 14.2)."""
    # A doubled prefix comes from a base URL that ends in /v1; its client is still the same.
    trimmed = path.removeprefix("/v1") if path.startswith("/v1/v1/") else path
    if trimmed == "/v1/messages" or trimmed.startswith("/v1/messages/"):
        return "anthropic"
    if trimmed == "/api/jobs" or trimmed.startswith("/api/jobs/"):
        return "jobs"
    return "openai"


def not_found(method: str, path: str, exists: Callable[[str], bool]) -> str:
    """The message for an unknown path. A path that one edit would make right gets a hint."""
    message = f"There is nothing at {method} {path[:SHOWN_CHARACTERS]}."
    if path.startswith("/v1/v1/"):
        return f"{message} The base URL must not end in /v1."
    if exists(f"/v1{path}"):
        return f"{message} Did you mean /v1{path}?"
    return message
