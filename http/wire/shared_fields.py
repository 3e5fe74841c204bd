"""Fields that all generating protocols have by the same name, and how tables of rules apply."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.http.wire.fields import Fields
from headrace.http.wire.rules import TEXT, Rule, read_all
from headrace.runtime.errors import Code, RequestError

# Without effect on the text of an answer: these choose where a prompt is cached.
AFFINITY: dict[str, Rule] = {"prompt_cache_key": TEXT, "session_id": TEXT}


def check(fields: Fields, *tables: Mapping[str, Rule]) -> None:
    """Raises `RequestError` for the first field of these tables that cannot be done as asked."""
    for rules in tables:
        read_all(fields, rules)


def check_adapter(fields: Fields) -> None:
    """There are none yet, so none is known."""
    adapter = fields.text("adapter")
    if adapter not in (None, "none"):
        message = "There is no adapter of this name."
        raise RequestError(Code.ADAPTER_NOT_FOUND, message, param=fields.path("adapter"))
