"""Drawing a token from each row's distribution by noise that belongs to the tokens.

The Gumbel-max trick: of log p + g, with independent Gumbel noise g, the largest falls on a token
with its probability p (Gumbel, "Statistical theory of extreme values", 1954; Maddison, Tarlow and
Minka, "A* sampling", NIPS 2014). A number looked up in a cumulative sum would do the same for less
noise, but there every token moves the bounds of all after it: logits that differ by rounding, as
they do between a batch of one and of eight, changed one of 200 draws of 49,152 tokens. Here a
draw changes only where two tokens nearly tie.

It is done twice, for blocks of BLOCK neighbouring ids and for the tokens of the block that was
found, so a row needs V / BLOCK + BLOCK noises and not V.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from headrace.actors.engine.filters import BLOCK, shifted


@attrs.frozen(eq=False)
class Noise:
    """Gumbel noise of R rows: one for each block (R, blocks_of(V)), one for each place in a
    block (R, BLOCK)."""

    blocks: Any
    places: Any


def blocks_of(vocab_size: int) -> int:
    """How many blocks so many tokens fill, the last one perhaps in part."""
    return -(-vocab_size // BLOCK)


def drawn(xp: Any, logits: Any, temperature: Any, noise: Noise) -> Any:
    """Token ids (R,) from the logits (R, V) of the whole vocabulary, `temperature` (R, 1)."""
    scaled = shifted(xp, logits) / temperature
    count = scaled.shape[-1]
    mass = _block_mass(xp, xp.exp(scaled))
    block = xp.argmax(xp.log(mass) + noise.blocks, axis=-1, keepdims=True)
    tokens = block * BLOCK + xp.arange(BLOCK)
    inside = xp.take_along_axis(scaled, xp.minimum(tokens, count - 1), axis=-1)
    rated = xp.where(tokens < count, inside + noise.places, -xp.inf)
    return block[:, 0] * BLOCK + xp.argmax(rated, axis=-1)


def drawn_among(
    tokens: NDArray[np.int64],
    logits: NDArray[np.float32],
    temperature: NDArray[np.float32],
    noise: Noise,
) -> NDArray[np.int64]:
    """What `drawn` finds where all but the candidates `tokens` (R, K) are out. Numpy only.

    An id may stand in a row more than once if all but one of its logits are -inf.
    """
    scaled = shifted(np, logits) / temperature
    blocks, places = np.divmod(tokens, BLOCK)
    rows, width = noise.blocks.shape
    cells = blocks + width * np.arange(rows)[:, None]
    mass = np.bincount(cells.ravel(), np.exp(scaled).ravel(), rows * width).reshape(rows, width)
    block = np.argmax(np.log(mass) + noise.blocks, axis=-1)[:, None]
    rated = scaled + np.take_along_axis(noise.places, places, axis=-1)
    index = np.argmax(np.where(blocks == block, rated, -np.inf), axis=-1)
    found: NDArray[np.int64] = np.take_along_axis(tokens, index[:, None], axis=-1)[:, 0]
    return found


def _block_mass(xp: Any, mass: Any) -> Any:
    """Sums (R, blocks) of the mass (R, V)."""
    rows, count = mass.shape
    whole = count // BLOCK
    sums = xp.sum(mass[:, : whole * BLOCK].reshape(rows, whole, BLOCK), axis=-1)
    if whole * BLOCK == count:
        return sums
    rest = xp.sum(mass[:, whole * BLOCK :], axis=-1, keepdims=True)
    return xp.concatenate([sums, rest], axis=-1)
