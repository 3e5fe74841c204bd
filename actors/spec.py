"""What is known of a model before anybody loads it."""

from __future__ import annotations

import attrs

from headrace.runtime.contracts import ModelInfo


@attrs.frozen
class ModelSpec:
    """A model that can be asked for: its id, where it is loaded from, and the bytes of weights
    that it is expected to take. `expected` is what its files say of it, if they were read."""

    id: str
    source: str
    estimate_bytes: int = 0
    expected: ModelInfo | None = None
