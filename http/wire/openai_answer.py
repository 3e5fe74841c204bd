"""What the answers of the OpenAI routes have in common: head, choice, usage, warnings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from headrace.http.wire.warned import warning_member
from headrace.runtime.contracts import Accepted, Delta, Event, Failed, Finished, Usage
from headrace.runtime.errors import RequestError


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


@attrs.frozen
class Answer:
    """A whole run of events that ended well."""

    accepted: Accepted
    text: str
    finished: Finished

    @classmethod
    def of(cls, events: Iterable[Event]) -> Answer:
        """Collect a run. Raises `RequestError` if it ended with a failure."""
        accepted = finished = None
        texts: list[str] = []
        for event in events:
            match event:
                case Accepted():
                    accepted = event
                case Delta(text=text):
                    texts.append(text)
                case Finished():
                    finished = event
                case Failed(error=error):
                    raise RequestError.of(error)
        if accepted is None or finished is None:
            raise ValueError("a run of events needs a beginning and an end")
        return cls(accepted, "".join(texts), finished)

    def body(self, head: Head, content: dict[str, Any]) -> dict[str, Any]:
        """The JSON of a non-streaming answer; `content` is what its choice says."""
        choice = {"index": 0, **content, "logprobs": None, **finish_members(self.finished)}
        warnings = self.accepted.warnings + self.finished.warnings
        return {
            **head.members(self.accepted),
            "choices": [choice],
            "usage": usage_object(self.finished.usage),
            **warning_member(warnings),
        }


def finish_members(finished: Finished) -> dict[str, Any]:
    return {"finish_reason": finished.reason, "matched_stop": finished.matched_stop}


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
