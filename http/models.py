"""What GET /v1/models says of each model (wire contract 10). Pure."""

from __future__ import annotations

from typing import Any

import attrs

from headrace.actors.reports import ModelReport, ModelState, Statistics
from headrace.runtime.contracts import ModelInfo, Sampling

# (state, state_reason) on the wire.
STATES: dict[ModelState, tuple[str, str | None]] = {
    "never_loaded": ("unloaded", "never_loaded"),
    "loading": ("loading", None),
    "ready": ("ready", None),
    "draining": ("draining", None),
    "unloaded_by_request": ("unloaded", "unloaded_by_request"),
    "unloaded_idle": ("unloaded", "evicted"),
    "evicted": ("unloaded", "evicted"),
    "load_failed": ("failed", "load_failed"),
    "restarting": ("restarting", "crashed"),
    "crashed": ("failed", "crashed"),
}
RESIDENT = frozenset({"ready", "draining"})

# What the routes built so far can do for a text model; a chat needs a template too.
CAPABILITIES = {
    "chat_completions": True,
    "completions": True,
    "messages": True,
    "responses": True,
    "embeddings": False,
    "decisions": False,
    "streaming": True,
    "tools": True,
    "structured_output": True,
    "logprobs": True,
    "vision": False,
    "audio": False,
    "adapters": False,
    "transcription": False,
    "translation": False,
}


def listing(statistics: Statistics, created: int, *, pools: bool = False) -> dict[str, Any]:
    """Every model: the current one first, then the resident ones, then the rest by id. `pools`:
    models that were made for text embed as well."""
    rows = [row(model, statistics.current, created, pools=pools) for model in statistics.models]
    rows.sort(key=lambda row: (not row["current"], not row["resident"], row["id"]))
    views = [
        {"name": row["id"], "description": "Local headrace model", "release_date": ""}
        for row in rows
        if row["capabilities"]["completions"]
    ]
    return {"object": "list", "data": rows, "models": views}


def row(
    model: ModelReport, current: str | None, created: int, *, pools: bool = False
) -> dict[str, Any]:
    state, reason = STATES[model.state]
    window = None if model.info is None else model.info.context_window
    return {
        "id": model.id,
        "object": "model",
        "created": created,
        "owned_by": "headrace",
        "resident": model.state in RESIDENT,
        "current": model.id == current,
        "state": state,
        "state_reason": reason,
        "pinned": model.pinned,
        "context_window": window,
        "max_model_len": window,
        "max_input_tokens": window,
        "max_safe_context": model.safe_context,
        "capabilities": capabilities(model.info, pools=pools),
        "gen_defaults": gen_defaults(model.info),
        "size_bytes": model.bytes or None,
    }


def capabilities(info: ModelInfo | None, *, pools: bool = False) -> dict[str, bool]:
    if info is not None and info.embedding is not None:
        return dict.fromkeys(CAPABILITIES, False) | {"embeddings": True, "reasoning": False}
    chats = info is None or info.has_chat_template
    return CAPABILITIES | {
        "embeddings": pools,
        "decisions": chats,
        "chat_completions": chats,
        "messages": chats,
        "responses": chats,
        "reasoning": info is not None and info.reasons,
    }


def gen_defaults(info: ModelInfo | None) -> dict[str, Any] | None:
    """The sampling fields as they are when a client sets none; a seed is fresh each time. None
    where they are not known, and for a model that draws nothing."""
    if info is None or info.embedding is not None:
        return None
    defaults = attrs.asdict(Sampling(seed=0)) | info.defaults
    return {name: value for name, value in defaults.items() if name not in ("seed", "logit_bias")}
