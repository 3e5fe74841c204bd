"""What rows of a model take, from its config alone: their caches and computing them. No MLX.

What a load has measured takes the place of the caches' part (`engine.footprint`). Computing is
counted by the widest intermediate results, for as many as are alive at once while one layer is
computed; `tests/engine/test_footprint.py` and `bench/fit.py` hold it against measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from headrace.actors.engine import config as facts
from headrace.actors.engine.config import Config, count
from headrace.runtime.footprint import Footprint, KvGroup

# Copies of a token's hidden state, and of its widest layer, that live at the same time.
HIDDEN_COPIES, WIDE_COPIES = 9, 3
# A layer's keys and values are copied when there is no room for more, and half of them once more
# for the product with them.
LAYER_COPIES = 1.5
# Logits are float32 whatever the model computes in.
LOGITS_COPIES = 2
FLOAT32_BYTES = 4
# Tokens by which mlx-lm's caches grow.
STEP_TOKENS = 256


@attrs.frozen
class Needs:
    """Bytes for each token of a chunk, and for each token that it looks at."""

    token_bytes: int = 0
    score_bytes: int = 0


def needs(config: Config, value_bytes: int, *, fused_attention: bool) -> Needs:
    """Zero where the config leaves out what the formula needs."""
    text = config.text
    width = HIDDEN_COPIES * count(text.get("hidden_size")) + WIDE_COPIES * _widest(text)
    heads = count(text.get("num_attention_heads"))
    # Without a fused kernel attention holds the scores of all heads at once, and their mask.
    scores = 0 if fused_attention else heads * FLOAT32_BYTES + 1
    return Needs(width * value_bytes, scores)


def _widest(text: Mapping[str, Any]) -> int:
    """Of the feed-forward layers; a mixture computes several experts for each token."""
    dense = count(text.get("intermediate_size"))
    experts = count(text.get("num_experts_per_tok"))
    expert = count(text.get("moe_intermediate_size")) or dense
    return max(dense, experts * expert)


def expected(config: Config, value_bytes: int, needs: Needs) -> Footprint:
    """An upper bound where the config does not tell which layers have windows or states."""
    per_token = facts.kv_values_per_token(config) * value_bytes
    layers = max(1, facts.caching_layers(config))
    windowed, window = facts.windowed_layers(config)
    full = KvGroup(per_token * (layers - windowed) // layers)
    sliding = KvGroup(per_token * windowed // layers, window)
    return Footprint(
        groups=tuple(group for group in (full, sliding) if group.bytes_per_token),
        step_tokens=STEP_TOKENS,
        token_bytes=needs.token_bytes,
        score_bytes=needs.score_bytes,
        context_bytes=int(LAYER_COPIES * per_token) // layers,
        logits_bytes=LOGITS_COPIES * facts.vocab_size(config) * FLOAT32_BYTES,
        together=True,
    )
