"""The models in the shape of Anthropic's API (wire contract 10.3)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from headrace.http.wire.fields import wrong_value

LEAST, MOST, USUAL = 1, 1000, 20


def model_object(row: dict[str, Any]) -> dict[str, Any]:
    """A row of our own list, in this shape."""
    return {
        "type": "model",
        "id": row["id"],
        "display_name": row["id"],
        "created_at": datetime.fromtimestamp(row["created"], UTC).isoformat(),
        "lifecycle": "active",
        "max_input_tokens": row["context_window"],
        "max_tokens": row["context_window"],
        "resident": row["resident"],
        "current": row["current"],
        "context_window": row["context_window"],
    }


def page(
    rows: Sequence[dict[str, Any]], limit: int, after: str | None, before: str | None
) -> dict[str, Any]:
    """Part of the list. Raises `RequestError` for a limit out of range and for ids of no model."""
    if not LEAST <= limit <= MOST:
        raise wrong_value("limit", f"must be between {LEAST} and {MOST}")
    ids = [row["id"] for row in rows]
    begin = 0 if after is None else _place(ids, after, "after_id") + 1
    end = len(rows) if before is None else _place(ids, before, "before_id")
    between = rows[begin:end]
    backwards = before is not None and after is None
    shown = between[-limit:] if backwards else between[:limit]
    return {
        "data": [model_object(row) for row in shown],
        "has_more": len(shown) < len(between),
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
    }


def _place(ids: Sequence[str], wanted: str, name: str) -> int:
    if wanted not in ids:
        raise wrong_value(name, "must be the id of a model in the list")
    return ids.index(wanted)
