"""The messages of a worker's link, and how they become frames.

A delivery holds items of many classes, which msgspec cannot tell apart by annotation; each item
therefore travels with its number, as a frame within the frame.
"""

from __future__ import annotations

import attrs

from headrace.actors.ledger import Allot
from headrace.actors.life import EngineLimits
from headrace.actors.messages import (
    Cancel,
    Decoding,
    Delivery,
    Ended,
    Figures,
    Prepare,
    Prepared,
    PrepareDecision,
    PrepareEmbedding,
    Refused,
    Submit,
    Ticket,
)
from headrace.actors.spec import ModelSpec
from headrace.runtime.contracts import (
    CallArguments,
    CallEnded,
    CallStarted,
    ChoiceEnded,
    Delta,
    Failed,
    Finished,
    ModelInfo,
    ReasoningDelta,
)
from headrace.runtime.errors import ErrorInfo
from headrace.runtime.frames import Codec
from headrace.runtime.readings import Decided, Embedded


@attrs.frozen
class Begin:
    """First word to a worker: what to load, and how.

    `loader` names a function that makes the `Loader`, as `module:name`; it is called with
    `blas_threads` in the worker.
    """

    spec: ModelSpec
    limits: EngineLimits
    loader: str
    blas_threads: int


@attrs.frozen
class Ready:
    """The worker's model takes requests."""

    info: ModelInfo


@attrs.frozen
class NotLoaded:
    """The worker could not load its model, and leaves."""

    error: ErrorInfo


@attrs.frozen
class Beat:
    """The worker's loop runs."""


@attrs.frozen
class Noted:
    """What happened in the worker that the parent's trace and log would not hear of otherwise."""

    name: str
    ticket: Ticket
    fields: dict[str, str]


@attrs.frozen
class DeliveryFrame:
    """A delivery with its items encoded one by one."""

    items: tuple[tuple[Ticket, bytes], ...]
    figures: Figures


ITEMS = Codec(
    (
        Prepared,
        Refused,
        Decoding,
        Ended,
        Delta,
        ReasoningDelta,
        CallStarted,
        CallArguments,
        CallEnded,
        ChoiceEnded,
        Embedded,
        Decided,
        Finished,
        Failed,
    )
)
TO_WORKER = Codec((Begin, Prepare, PrepareEmbedding, PrepareDecision, Submit, Cancel, Allot))
FROM_WORKER = Codec((Ready, NotLoaded, Beat, Noted, DeliveryFrame))


def encode_delivery(delivery: Delivery) -> bytes:
    items = tuple((ticket, ITEMS.encode(item)) for ticket, item in delivery.items)
    return FROM_WORKER.encode(DeliveryFrame(items, delivery.figures))


def decode_delivery(frame: DeliveryFrame) -> Delivery:
    """Raises `FrameError`."""
    items = tuple((ticket, ITEMS.decode(item)) for ticket, item in frame.items)
    return Delivery(items, frame.figures)
