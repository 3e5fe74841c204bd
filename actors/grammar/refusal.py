"""The answers to schemas that cannot be had."""

from __future__ import annotations

from headrace.runtime.errors import Code, RequestError

PATH_CHARACTERS = 200


def refused(keyword: str, path: str, why: str) -> RequestError:
    """Names the keyword and the place of its schema."""
    shown = path if len(path) <= PATH_CHARACTERS else path[:PATH_CHARACTERS] + "…"
    text = f'The schema is refused: "{keyword}" at {shown} {why}.'
    return RequestError(Code.INVALID_SCHEMA, text, details={"keyword": keyword, "path": shown})


def too_large(why: str) -> RequestError:
    return RequestError(Code.INVALID_SCHEMA, f"The schema is too large: {why}.")
