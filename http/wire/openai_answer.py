"""What the answers of the OpenAI routes have in common: head, end, usage, chunks."""

from __future__ import annotations

from typing import Any

import attrs

from headrace.http.wire.frames import DONE, Opened
from headrace.http.wire.warned import warning_member
from headrace.runtime.contracts import Accepted, ChoiceEnded, Finished, Usage, Warning_


@attrs.frozen
class Head:
    """The members that are equal in every chunk of an answer."""

    id: str
    object: str
    created: int

    def members(self, accepted: Accepted) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": self.object,
            "created": self.created,
            "model": accepted.model,
            "system_fingerprint": accepted.fingerprint,
        }


class Chunks:
    """Writes the chunks of one stream. Warnings that have come go with the next chunk."""

    def __init__(self, head: Head, *, include_usage: bool) -> None:
        self._head = head
        self._include_usage = include_usage
        self._opened: Opened | None = None
        self._warnings: tuple[Warning_, ...] = ()

    def begin(self, accepted: Accepted) -> None:
        """The first one names model and fingerprint, for the whole stream."""
        self._opened = self._opened or Opened(self._head.members(accepted))
        self._warnings += accepted.warnings

    def chunk(self, choice: dict[str, Any], warnings: tuple[Warning_, ...] = ()) -> bytes:
        usage = {"usage": None} if self._include_usage else {}
        return self._write([choice], usage, warnings)

    def end(self, finished: Finished) -> list[bytes]:
        if not self._include_usage:
            return [DONE]
        usage = {"usage": usage_object(finished.usage)}
        return [self._write([], usage, finished.warnings), DONE]

    def _write(
        self, choices: list[Any], usage: dict[str, Any], warnings: tuple[Warning_, ...]
    ) -> bytes:
        if self._opened is None:
            raise ValueError("a stream begins with what its request was accepted as")
        rest = {"choices": choices, **usage}
        if told := self._warnings + warnings:
            self._warnings = ()
            rest |= warning_member(told)
        return self._opened.frame(rest)


def finish_members(ended: ChoiceEnded) -> dict[str, Any]:
    return {"finish_reason": ended.reason, "matched_stop": ended.matched_stop}


def usage_object(usage: Usage) -> dict[str, Any]:
    """Wire contract 3.10. `lane` is always the batch: there is no other."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "lane": "batched",
    }
