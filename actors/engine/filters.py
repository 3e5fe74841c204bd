"""Narrowing the distributions of many rows at once.

Everything is written against what numpy and mlx.core have in common, so the same lines run on
the host and on the device; `xp` is the one or the other. Rows are the first axis, candidate
tokens the last, and every parameter has shape (R, 1). Logits are float32, shifted so that the
largest of a row is 0.

The meaning is mlx_lm.sample_utils', with ties at a threshold kept. A row that leaves a filter
out carries a value that rounding cannot make it take part by: top_p inf, log_min_p -inf, top_k V,
XTC threshold inf.
"""

from __future__ import annotations

from typing import Any

import attrs

# Tokens whose ids are neighbours are drawn from by blocks of so many, and candidates are padded
# to a multiple of it.
BLOCK = 64


@attrs.frozen(eq=False)
class Filters:
    """Parameters of R rows, and which filters any of them uses."""

    top_p: Any
    log_min_p: Any
    top_k: Any
    uses_top_p: bool
    uses_min_p: bool
    uses_top_k: bool


@attrs.frozen(eq=False)
class Exclusion:
    """XTC of this step: thresholds (R, 1), inf for rows it spares, and the tokens it spares,
    a bool array that broadcasts to the candidates."""

    threshold: Any
    exempt: Any


def shifted(xp: Any, logits: Any) -> Any:
    """Logits whose largest is 0 in each row, so that exp neither overflows nor vanishes."""
    return logits - xp.max(logits, axis=-1, keepdims=True)


def narrowed(
    xp: Any, logits: Any, total: Any, filters: Filters, exclusion: Exclusion | None
) -> Any:
    """The logits with -inf where a token is out, in the order top_p, min_p, XTC, top_k.

    `total` (R, 1) is the sum of exp over the whole vocabulary, which the candidates may be a
    part of.
    """
    ordered = xp.sort(logits, axis=-1) if filters.uses_top_p or filters.uses_top_k else None
    floor = _nucleus_floor(xp, ordered, filters.top_p, total) if filters.uses_top_p else None
    if filters.uses_min_p:
        floor = _higher(xp, floor, filters.log_min_p)
    if exclusion is not None:
        logits, floor = _without_top_choices(xp, _above(xp, logits, floor), exclusion), None
        ordered = xp.sort(logits, axis=-1) if filters.uses_top_k else None
    if filters.uses_top_k:
        floor = _higher(xp, floor, _rank_floor(xp, ordered, filters.top_k))
    return _above(xp, logits, floor)


def _higher(xp: Any, floor: Any, other: Any) -> Any:
    return other if floor is None else xp.maximum(floor, other)


def _above(xp: Any, logits: Any, floor: Any) -> Any:
    return logits if floor is None else xp.where(logits < floor, -xp.inf, logits)


def _nucleus_floor(xp: Any, ordered: Any, top_p: Any, total: Any) -> Any:
    """The smallest logit of the smallest set of top tokens that holds top_p of the mass."""
    mass = xp.cumsum(xp.exp(ordered), axis=-1)
    above = mass[:, -1:] - mass
    dropped = xp.sum(above >= top_p * total, axis=-1, keepdims=True)
    return xp.take_along_axis(ordered, dropped, axis=-1)


def _rank_floor(xp: Any, ordered: Any, top_k: Any) -> Any:
    """The top_k-th largest logit, or the smallest of fewer candidates."""
    return xp.take_along_axis(ordered, xp.maximum(ordered.shape[-1] - top_k, 0), axis=-1)


def _without_top_choices(xp: Any, logits: Any, exclusion: Exclusion) -> Any:
    """XTC, "exclude top choices" (github.com/oobabooga/text-generation-webui, pull 6335):
    every token above the threshold but the least likely of them goes."""
    mass = xp.exp(shifted(xp, logits))
    # Not `sum`, whose order of addition depends on how far the row is padded.
    probability = mass / xp.cumsum(mass, axis=-1)[:, -1:]
    beyond = xp.where(probability > exclusion.threshold, probability, xp.inf)
    least = xp.min(beyond, axis=-1, keepdims=True)
    return xp.where((probability > least) & ~exclusion.exempt, -xp.inf, logits)
