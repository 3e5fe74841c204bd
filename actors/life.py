"""What every life of a model has, in this process or in another: limits, an outlet, an end.

Apart from what runs a model, since a server of workers needs no more than this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import attrs

from headrace.actors.messages import Delivery, ToModel
from headrace.runtime.contracts import ModelInfo
from headrace.runtime.errors import Code, ErrorInfo, KernelError


@attrs.frozen
class EngineLimits:
    """`chunk_tokens` and `chunk_seconds` bound a prefill chunk, `step_seconds` is the watchdog of
    one step, `close_seconds` is for the end of a load in progress and for freeing a model;
    `cache_bytes` is for kept prefixes. A model that is `rationed` uses no more memory than it is
    allotted."""

    chunk_tokens: int
    chunk_seconds: float
    step_seconds: float
    close_seconds: float = 30.0
    cache_bytes: int = 0
    # A folder for each kind of model; no bytes: nothing is kept on disk.
    disk_folder: str = ""
    disk_bytes: int = 0
    rationed: bool = False


class EngineHung(KernelError):
    """A step made no progress for the watchdog's limit; the engine's thread is lost."""


Readied: TypeAlias = Callable[[ModelInfo], None]


class Outlet(Protocol):
    """Where a running model is announced and where its deliveries go: a `Host`, or a link."""

    def open(self, info: ModelInfo, tell: Callable[[ToModel], None]) -> None: ...

    def deliver(self, delivery: Delivery) -> None: ...

    def close(self, error: ErrorInfo) -> None: ...


def gone(model_id: str, state: str = "restarting") -> ErrorInfo:
    """What the requests of a model are told whose engine has died."""
    return ErrorInfo(
        Code.ENGINE_UNAVAILABLE,
        f"The engine of {model_id!r} stopped.",
        details={"state": state},
        retry_after_seconds=None if state == "exhausted" else 2.0,
    )
