"""Attention of single tokens on a CPU, with the query heads that share keys in one product.

MLX's CPU backend multiplies every query head by its keys for itself, and for one token each such
product is too small to be worth the call. Heads of a group look at the same keys, so they can be
the rows of one product: with three heads to a group, a decode step of many rows makes a third of
the calls.

Models find `scaled_dot_product_attention` as a name in their module. The attention modules of the
one model at hand are given classes of their own that find ours there instead; no other model and
nothing process-wide is touched.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import mlx.core as mx
from mlx_lm.models import base

_NAME = "scaled_dot_product_attention"


def group_query_heads(model: Any) -> int:
    """Let a model attend so; returns how many of its modules now do. Only worth it on a CPU."""
    kinds: dict[type, type] = {}
    changed = [module for module in model.modules() if _attends(type(module))]
    for module in changed:
        kind = type(module)
        if kind not in kinds:
            kinds[kind] = _with_ours(kind)
        module.__class__ = kinds[kind]
    return len(changed)


def _attends(kind: type) -> bool:
    call = kind.__call__
    return (
        isinstance(call, FunctionType)
        and _NAME in call.__code__.co_names
        and call.__globals__.get(_NAME) is base.scaled_dot_product_attention
    )


def _with_ours(kind: type) -> type:
    """The class with the same code, in which one name means something else."""
    call: Any = kind.__call__
    names = {**call.__globals__, _NAME: grouped_attention}
    ours = FunctionType(call.__code__, names, call.__name__, call.__defaults__, call.__closure__)
    ours.__kwdefaults__ = call.__kwdefaults__
    return type(kind.__name__, (kind,), {"__call__": ours, "__module__": kind.__module__})


def grouped_attention(
    queries: mx.array,
    keys: Any,
    values: Any,
    cache: Any,
    scale: float,
    mask: Any,
    sinks: mx.array | None = None,
) -> mx.array:
    """mlx-lm's function of this name, done by groups where there is one token and a group.

    Shapes: queries (B, heads, L, dim), keys and values (B, groups, length, dim).
    """
    rows, heads, length, dim = queries.shape
    # A quantized cache hands its keys over in parts.
    groups = keys.shape[1] if isinstance(keys, mx.array) else heads
    if length > 1 or heads == groups or sinks is not None or isinstance(mask, str):
        return base.scaled_dot_product_attention(
            queries, keys, values, cache=cache, scale=scale, mask=mask, sinks=sinks
        )
    together = (queries * scale).reshape(rows, groups, heads // groups, dim)
    weights = mx.softmax(_masked(together @ keys.swapaxes(-1, -2), mask), axis=-1, precise=True)
    attended: mx.array = (weights @ values).reshape(rows, heads, 1, -1)
    return attended


def _masked(scores: mx.array, mask: mx.array | None) -> mx.array:
    """The mask (B or 1, 1, 1, length) is the same for all heads."""
    if mask is None:
        return scores
    if mask.dtype == mx.bool_:
        return mx.where(mask, scores, mx.finfo(scores.dtype).min)
    return scores + mask
