"""A response while it comes into being: its object at any time, and the stream that tells of it.

The plain answer is what the same writer has at the end, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from headrace.http.wire.asking import SoFar
from headrace.http.wire.call_ids import CallIds
from headrace.http.wire.frames import KEEP_ALIVE, frame
from headrace.http.wire.responses_parts import (
    CallItem,
    CustomItem,
    Growing,
    Item,
    MessageItem,
    ReasoningItem,
    Status,
    Told,
)
from headrace.http.wire.responses_tools import Offered
from headrace.http.wire.warned import warning_member
from headrace.runtime.contracts import (
    Accepted,
    CallArguments,
    CallEnded,
    CallStarted,
    ChoiceEnded,
    Delta,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    Usage,
    Warning_,
)
from headrace.runtime.errors import Code, ErrorInfo


@attrs.frozen
class Frame:
    """What a writer needs of its request. `fixed` are the members that never change."""

    token: str
    fixed: Mapping[str, Any]
    offered: Mapping[str, Offered]
    summary: bool
    # Unix seconds, for when the response is complete.
    clock: Callable[[], float]


class ResponseWriter:
    """Takes the events of one run. `response` is the object as far as it has come."""

    def __init__(self, made: Frame, model: str | None = None) -> None:
        self._made = made
        self._model = model
        self._status = "queued"
        self._output: list[Item] = []
        self._open: Growing | None = None
        self._usage: Usage | None = None
        self._error: ErrorInfo | None = None
        self._completed_at: int | None = None
        self._cut = False
        self._warnings: dict[Warning_, None] = {}
        self._begun = False
        self._number = 0

    # ---- the object ------------------------------------------------------------------------

    @property
    def response(self) -> dict[str, Any]:
        open_ = [] if self._open is None else [self._open.item("in_progress")]
        return {
            **self._made.fixed,
            "model": self._model or self._made.fixed["model"] or "",
            "status": self._status,
            "output": [*self._output, *open_],
            "error": None if self._error is None else _failure(self._error),
            "incomplete_details": {"reason": "max_output_tokens"} if self._cut else None,
            "completed_at": self._completed_at,
            "usage": None if self._usage is None else usage_object(self._usage),
            **warning_member(self._warnings),
        }

    @property
    def status(self) -> str:
        return self._status

    @property
    def error(self) -> ErrorInfo | None:
        return self._error

    # ---- the stream ------------------------------------------------------------------------

    def sign_of_life(self, so_far: SoFar) -> bytes:
        """A stream can begin as soon as it is known which model will answer."""
        if self._begun or so_far.model is None:
            return KEEP_ALIVE
        return b"".join([*self._begin(so_far.model), self._state("queued")])

    def feed(self, event: Event) -> list[bytes]:
        match event:
            case Delta(text=text, scored=scored) if text or scored:
                opening = [] if isinstance(self._open, MessageItem) else self._open_message()
                return [*opening, *self._tell(self._growing.more(text, scored))]
            case Accepted():
                return self._accept(event)
            case ReasoningDelta(text=text) if text:
                opening = [] if isinstance(self._open, ReasoningItem) else self._open_reasoning()
                return [*opening, *self._tell(self._growing.more(text))]
            case CallStarted(call, name):
                return self._open_call(call, name)
            case CallArguments(text=text) if text:
                return self._tell(self._growing.more(text))
            case CallEnded():
                return self._close("completed")
            case ChoiceEnded():
                self._warnings |= dict.fromkeys(event.warnings)
                self._cut = event.reason == "length"
                return self._close("incomplete" if self._cut else "completed")
            case Finished():
                return self._finish(event)
            case Failed(error=error):
                return self._fail(error)
            case _:
                return []

    def _begin(self, model: str) -> list[bytes]:
        self._begun = True
        self._model = model
        return [self._state("created")]

    def _accept(self, accepted: Accepted) -> list[bytes]:
        self._model = accepted.model
        self._warnings |= dict.fromkeys(accepted.warnings)
        self._status = "in_progress"
        begin = [] if self._begun else self._begin(accepted.model)
        return [*begin, self._state("in_progress")]

    @property
    def _growing(self) -> Growing:
        if self._open is None:
            raise ValueError("a piece of an item came without the item's beginning")
        return self._open

    def _open_message(self) -> list[bytes]:
        closing = self._close("completed")
        return closing + self._opened(MessageItem(self._id("msg_"), len(self._output)))

    def _open_reasoning(self) -> list[bytes]:
        closing = self._close("completed")
        place, item_id = len(self._output), self._id("rs_")
        item = ReasoningItem(item_id, place, summary=self._made.summary)
        return closing + self._opened(item)

    def _open_call(self, call: int, name: str) -> list[bytes]:
        closing = self._close("completed")
        offered = self._made.offered.get(name, Offered(name))
        call_id = CallIds(self._made.token).of(0, call)
        kind, prefix = (CustomItem, "ctc_") if offered.custom else (CallItem, "fc_")
        item = kind(self._id(prefix), len(self._output), call_id, offered)
        return closing + self._opened(item)

    def _id(self, prefix: str) -> str:
        """The id of the next item."""
        return CallIds(f"{self._made.token}/output", prefix).of(0, len(self._output))

    def _opened(self, item: Growing) -> list[bytes]:
        self._open = item
        added = {"output_index": len(self._output), "item": item.bare()}
        return self._tell([("response.output_item.added", added), *item.opening()])

    def _close(self, status: Status) -> list[bytes]:
        """End the open item, if there is one."""
        growing, self._open = self._open, None
        if growing is None:
            return []
        item = growing.item(status)
        done = {"output_index": len(self._output), "item": item}
        self._output.append(item)
        return self._tell([*growing.closing(), ("response.output_item.done", done)])

    def _finish(self, finished: Finished) -> list[bytes]:
        self._warnings |= dict.fromkeys(finished.warnings)
        self._usage = finished.usage
        self._completed_at = int(self._made.clock())
        self._status = "incomplete" if self._cut else "completed"
        return [self._state(self._status)]

    def _fail(self, error: ErrorInfo) -> list[bytes]:
        begin = [] if self._begun else self._begin(self._model or "")
        if self._open is not None:
            self._output.append(self._open.item("incomplete"))
            self._open = None
        self._error = error
        cancelled = error.code is Code.REQUEST_CANCELLED
        self._status = "cancelled" if cancelled else "failed"
        told = {"code": error.code.value, "message": error.message, "param": error.param}
        frames = [] if cancelled else self._tell([("error", told)])
        return [*begin, *frames, self._state("failed")]

    def _state(self, name: str) -> bytes:
        (told,) = self._tell([(f"response.{name}", {"response": self.response})])
        return told

    def _tell(self, events: list[Told]) -> list[bytes]:
        frames = []
        for name, members in events:
            value = {"type": name, "sequence_number": self._number, **members}
            frames.append(frame(value, name))
            self._number += 1
        return frames


def usage_object(usage: Usage) -> dict[str, Any]:
    """Wire contract 7.4. `lane` is always the batch: there is no other."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "lane": "batched",
    }


def _failure(error: ErrorInfo) -> dict[str, Any]:
    return {"code": "server_error", "message": error.message}


def interrupted(response: dict[str, Any]) -> dict[str, Any]:
    """A stored response whose run ended with the server that ran it."""
    message = "The server ended before the response did."
    return response | {
        "status": "failed",
        "error": {"code": "server_error", "message": message},
    }
