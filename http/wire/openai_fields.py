"""The fields that chat and completions share, and those of each that are not honoured.

Nothing a client asks for is dropped in silence (wire contract 0): a known field is honoured
somewhere, or it has its line here as accepted without effect, or as refused.
"""

from __future__ import annotations

from headrace.http.wire.fields import Fields
from headrace.http.wire.rules import BOOLEAN, OBJECT, TEXT, Rule, integer, only, read_all

# Accepted without effect; the type is checked all the same.
CHAT_WITHOUT_EFFECT: dict[str, Rule] = {
    "user": TEXT,
    "metadata": OBJECT,
    "store": BOOLEAN,
    "service_tier": TEXT,
    "safety_identifier": TEXT,
    "prediction": OBJECT,
    "prompt_cache_options": OBJECT,
    "prompt_cache_retention": TEXT,
}
COMPLETION_WITHOUT_EFFECT: dict[str, Rule] = {"user": TEXT}

# Refused unless null, or the neutral value given here.
CHAT_REFUSED: dict[str, Rule] = {
    "modalities": only(["text"]),
    "functions": only(None),
    "function_call": only(None),
    "audio": only(None),
    "web_search_options": only(None),
    "moderation": only(None),
    "best_of": only(None),
    "suffix": only(None),
    "chat_template": only(None),
    "hlg": only(None),
}
COMPLETION_REFUSED: dict[str, Rule] = {
    "suffix": only(None),
    "messages": only(None),
    "tools": only(None),
    "hlg": only(None),
}

STREAM_OPTIONS: dict[str, Rule] = {
    "include_usage": BOOLEAN,
    "include_obfuscation": BOOLEAN,
    "continuous_usage_stats": BOOLEAN,
}


def read_include_usage(fields: Fields) -> bool:
    """Whether a stream is to end with its usage; without a stream nobody asks."""
    options = fields.object("stream_options")
    given = {} if options is None else read_all(options, STREAM_OPTIONS)
    return bool(given.get("include_usage"))


def read_cap(fields: Fields, least: int) -> int | None:
    """The most tokens to generate. The newer name wins; both are checked."""
    newer = fields.count("max_completion_tokens", least)
    older = fields.count("max_tokens", least)
    return older if newer is None else newer


def read_choices(fields: Fields, most: int) -> int:
    choices = fields.read("n", integer(1, most).read)
    return 1 if choices is None else int(choices)
