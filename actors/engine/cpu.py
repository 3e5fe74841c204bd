"""What a model computes in another way on a CPU."""

from __future__ import annotations

from typing import Any

from mlx_lm.models import activations, base

from headrace.actors.engine.attention import banded_attention, cpu_attention
from headrace.actors.engine.exponentials import cpu_swiglu
from headrace.actors.engine.replacing import Replacements, replace_functions

_REPLACEMENTS: Replacements = {
    "scaled_dot_product_attention": (base.scaled_dot_product_attention, cpu_attention),
    "swiglu": (activations.swiglu, cpu_swiglu),
}
_LAST_LAYER: Replacements = {
    "scaled_dot_product_attention": (base.scaled_dot_product_attention, banded_attention),
}


def compute_on_cpu(model: Any) -> int:
    """Let a model's layers attend and gate as a CPU does best; returns how many modules now do.

    The last layer computes as it did, but for bands: these evaluate what they are given, and of a
    prompt nobody wants more from that layer than its keys and values.
    """
    *layers, last = model.layers
    replace_functions(last.modules(), _LAST_LAYER)
    return replace_functions((m for layer in layers for m in layer.modules()), _REPLACEMENTS)
