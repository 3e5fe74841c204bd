"""What a program of ours that does one piece of long work tells of it: lines of JSON, to stdout."""

from __future__ import annotations

import sys
from typing import Any

import msgspec


class Told(msgspec.Struct, omit_defaults=True):
    """One line. `fraction` is from 0 to 1; `bytes` are there of `total`."""

    doing: str | None = None
    fraction: float | None = None
    bytes: int | None = None
    total: int | None = None
    # The last line tells of the model that is there now, or why there is none.
    model: str | None = None
    path: str | None = None
    made: bool = False
    error: str | None = None


def tell(**fields: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(Told(**fields)) + b"\n")
    sys.stdout.buffer.flush()
