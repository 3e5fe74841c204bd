"""What is known of a model before anybody loads it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from headrace.runtime.contracts import ModelInfo

# A primary model generates text and may be the current one. A companion serves routes of its own,
# such as speech, and is never what an alias means.
Role: TypeAlias = Literal["primary", "companion"]


@attrs.frozen
class ModelSpec:
    """A model that can be asked for: its id, where it is loaded from, and the bytes of weights
    that it is expected to take. `expected` is what its files say of it, if they were read;
    `role` is what it is asked for."""

    id: str
    source: str
    estimate_bytes: int = 0
    expected: ModelInfo | None = None
    role: Role = "primary"
