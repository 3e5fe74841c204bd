"""The ledger with those it talks to: models that report, and loads that wait for room.

Owned by the admission actor; what hosts and lives tell it are messages like any other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

import attrs

from headrace.actors.ledger import Action, Allot, Ledger, Start, Use
from headrace.actors.messages import ToModel
from headrace.runtime.contracts import ModelInfo
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.reply import Reply
from headrace.runtime.trace import Trace

# A measurement between two steps may find what a row has just left behind; the least of so many
# is what stays.
MEASUREMENTS = 3


@attrs.frozen
class Load:
    """A model is to be loaded; the reply comes when there is room for its weights."""

    model_id: str
    weights_bytes: int
    reply: Reply[None]


@attrs.frozen
class Opened:
    """The model runs, and hears by `tell`."""

    model_id: str
    info: ModelInfo
    tell: Callable[[ToModel], None]


@attrs.frozen
class Used:
    model_id: str
    use: Use


@attrs.frozen
class Weighed:
    """The model without its rows and what it keeps was measured at so many bytes; `active_bytes`
    are those of the whole process."""

    model_id: str
    measured_bytes: int
    active_bytes: int


@attrs.frozen
class Closed:
    """The model's memory is free."""

    model_id: str
    reply: Reply[None]


BookNews: TypeAlias = Load | Opened | Used | Weighed | Closed


class Treasury(Protocol):
    """What lives and hosts of models see of the books."""

    def weights(self, model_id: str, count_bytes: int) -> AbstractAsyncContextManager[None]:
        """Room for a model's weights, from before its load until its memory is free."""

    def note(self, news: BookNews) -> None:
        """Take a report. Sync; it never waits."""


@attrs.define(eq=False)
class _Entry:
    info: ModelInfo | None = None
    tell: Callable[[ToModel], None] | None = None
    loading: Reply[None] | None = None
    excesses: deque[int] = attrs.field(factory=lambda: deque(maxlen=MEASUREMENTS))
    use: Use = attrs.field(factory=Use)


class Books:
    """Keeps the ledger, and carries out what it decides."""

    def __init__(self, ledger: Ledger, trace: Trace) -> None:
        self.ledger = ledger
        self._trace = trace
        self._entries: dict[str, _Entry] = {}

    def take(self, news: BookNews) -> None:
        """Raises `ValueError` for a second load of a model that is there."""
        match news:
            case Load(model_id, weights_bytes, reply):
                if weights_bytes > (limit := self.ledger.lone_bytes(0)):
                    text = f"{weights_bytes} bytes are needed for the model, {limit} may be used."
                    reply.fail(RequestError(Code.DOES_NOT_FIT, text))
                    return
                self._entries[model_id] = _Entry(loading=reply)
                self._carry_out(self.ledger.load(model_id, weights_bytes))
            case Opened(model_id, info, tell):
                entry = self._entries.setdefault(model_id, _Entry())
                entry.info, entry.tell = info, tell
                self._carry_out(self.ledger.open(model_id, info.weights_bytes))
            case Used(model_id, use):
                if (known := self._entries.get(model_id)) is not None:
                    known.use = use
                self._carry_out(self.ledger.report(model_id, use))
            case Weighed():
                self._weigh(news)
            case Closed(model_id, reply):
                self._entries.pop(model_id, None)
                self._carry_out(self.ledger.close(model_id))
                reply.set(None)

    def abandon(self, error: Exception) -> None:
        """Nobody will answer the loads that wait."""
        for entry in self._entries.values():
            if entry.loading is not None:
                entry.loading.fail(error)

    def _weigh(self, news: Weighed) -> None:
        entry = self._entries.get(news.model_id)
        if entry is None or entry.info is None:
            return
        weights_bytes = entry.info.weights_bytes
        use = entry.use
        predicted = weights_bytes + use.rows_bytes - use.transient_bytes + use.cache_bytes
        self._trace.emit(
            "ledger.measured",
            model=news.model_id,
            predicted_bytes=predicted,
            measured_bytes=news.active_bytes,
            # A step's own, a part of which may still be there when it is measured.
            transient_bytes=use.transient_bytes,
        )
        entry.excesses.append(max(0, news.measured_bytes - weights_bytes))
        excess = min(entry.excesses) if len(entry.excesses) == MEASUREMENTS else 0
        self._carry_out(self.ledger.weigh(news.model_id, weights_bytes + excess))

    def _carry_out(self, actions: Iterable[Action]) -> None:
        for action in actions:
            entry = self._entries[action.model_id]
            match action:
                case Allot():
                    assert entry.tell is not None
                    entry.tell(action)
                case Start():
                    assert entry.loading is not None
                    entry.loading.set(None)
                    entry.loading = None
