"""Narrowing a distribution before the draw: top_p, min_p, XTC and top_k, for many rows at once.

Everything is written against what numpy and mlx.core have in common, so the same lines run on
the host and on the device; `xp` is the one or the other. Rows are the first axis, the
vocabulary the last, and every parameter has shape (R, 1).

The meaning is mlx_lm.sample_utils', with ties at a threshold kept. A row that leaves a filter
out carries its neutral value (top_p 1, min_p 0, top_k V, XTC threshold inf).
"""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen(eq=False)
class Filters:
    """Parameters of R rows as (R, 1) arrays, and which filters any of them uses.

    `log_min_p` is log(min_p), -inf where it is off.
    """

    top_p: Any
    log_min_p: Any
    top_k: Any
    uses_top_p: bool
    uses_min_p: bool
    uses_top_k: bool


def shifted(xp: Any, logits: Any) -> Any:
    """Logits whose largest is 0 in each row, so that exp neither overflows nor vanishes."""
    return logits - xp.max(logits, axis=-1, keepdims=True)


def narrowed(xp: Any, logits: Any, filters: Filters, xtc_threshold: Any, exempt: Any) -> Any:
    """`shifted` logits with -inf where a token is out.

    `xtc_threshold` is None when the coin of no row asks for XTC, else (R, 1) with inf for the
    others; `exempt` is a (V,) bool array of tokens that XTC spares.
    """
    ordered = None
    if filters.uses_top_p or filters.uses_top_k:
        ordered = xp.sort(logits, axis=-1)
    floor = _nucleus_floor(xp, ordered, filters.top_p) if filters.uses_top_p else None
    if filters.uses_min_p:
        floor = _highest(xp, floor, filters.log_min_p)
    if xtc_threshold is not None:
        logits = _without_top_choices(xp, _above(xp, logits, floor), xtc_threshold, exempt)
        floor = None
        ordered = xp.sort(logits, axis=-1) if filters.uses_top_k else None
    if filters.uses_top_k:
        floor = _highest(xp, floor, _rank_floor(xp, ordered, filters.top_k))
    return _above(xp, logits, floor)


def _highest(xp: Any, floor: Any, other: Any) -> Any:
    return other if floor is None else xp.maximum(floor, other)


def _above(xp: Any, logits: Any, floor: Any) -> Any:
    return logits if floor is None else xp.where(logits < floor, -xp.inf, logits)


def _nucleus_floor(xp: Any, ordered: Any, top_p: Any) -> Any:
    """The smallest logit of the smallest set of top tokens whose mass exceeds top_p.

    `ordered` ascends. The last token always stays.
    """
    mass = xp.cumsum(xp.exp(ordered), axis=-1)
    dropped = xp.sum(mass <= (1 - top_p) * mass[:, -1:], axis=-1, keepdims=True)
    return xp.take_along_axis(ordered, xp.minimum(dropped, ordered.shape[-1] - 1), axis=-1)


def _rank_floor(xp: Any, ordered: Any, top_k: Any) -> Any:
    """The top_k-th largest logit."""
    return xp.take_along_axis(ordered, ordered.shape[-1] - top_k, axis=-1)


def _without_top_choices(xp: Any, logits: Any, threshold: Any, exempt: Any) -> Any:
    """XTC, "exclude top choices" (github.com/oobabooga/text-generation-webui, pull 6335):
    every token above the threshold but the least likely of them goes."""
    mass = xp.exp(shifted(xp, logits))
    probability = mass / xp.sum(mass, axis=-1, keepdims=True)
    least = xp.min(xp.where(probability > threshold, probability, xp.inf), axis=-1, keepdims=True)
    return xp.where((probability > least) & ~exempt, -xp.inf, logits)


def drawn(xp: Any, logits: Any, temperature: Any, uniform: Any) -> Any:
    """Token ids (R,) by inverse CDF over the vocabulary at the temperature.

    `uniform` is (R, 1) in [0, 1) with at most 24 bits, so that u * total stays below total and
    the token found has a probability above 0.
    """
    mass = xp.cumsum(xp.exp(shifted(xp, logits) / temperature), axis=-1)
    below = xp.sum(mass <= uniform * mass[:, -1:], axis=-1)
    # Only a row of NaN gets past the end.
    return xp.minimum(below, logits.shape[-1] - 1)
