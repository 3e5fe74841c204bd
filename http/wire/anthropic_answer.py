"""What a message and its stream have in common: head, usage, why it ended (wire contract 6.2)."""

from __future__ import annotations

from typing import Any

import attrs

from headrace.http.wire.answer import Part
from headrace.http.wire.call_ids import CallIds
from headrace.http.wire.json_text import parsed_or_text
from headrace.runtime.contracts import ChoiceEnded, Usage

# Where the arguments of a call go that are no object.
RAW = "_raw"


@attrs.frozen
class MessageHead:
    """What is known of an answer before its first token. `cap` is what the client set."""

    id: str
    cap: int
    call_ids: CallIds
    # Thinking is told of, but not shown.
    omits_thoughts: bool = False

    def members(self, model: str) -> dict[str, Any]:
        return {"id": self.id, "type": "message", "role": "assistant", "model": model}

    def stop(self, ended: ChoiceEnded, accepted_cap: int, usage: Usage) -> dict[str, Any]:
        """Why the answer ended. A cap that the window has lowered is the window's."""
        reason = "end_turn"
        if ended.reason == "length":
            lowered = accepted_cap < self.cap and usage.completion_tokens >= accepted_cap
            reason = "model_context_window_exceeded" if lowered else "max_tokens"
        elif ended.reason == "tool_calls":
            reason = "tool_use"
        elif ended.matched_stop is not None:
            reason = "stop_sequence"
        matched = ended.matched_stop if reason == "stop_sequence" else None
        return {"stop_reason": reason, "stop_sequence": matched}

    def opened(self, part: Part) -> dict[str, Any]:
        """A block as it begins."""
        if part.kind == "call":
            call_id = self.call_ids.of(0, part.call)
            return {"type": "tool_use", "id": call_id, "name": part.name, "input": {}}
        return thinking("") if part.kind == "reasoning" else text("")

    def whole(self, part: Part) -> dict[str, Any]:
        """A block with everything in it."""
        if part.kind == "call":
            return self.opened(part) | {"input": arguments(part.text)}
        if part.kind == "reasoning":
            return thinking("" if self.omits_thoughts else part.text)
        return text(part.text)


def start_usage(accepted_tokens: int) -> dict[str, Any]:
    """The counts at the beginning; those at the end replace them."""
    return usage_object(Usage(accepted_tokens, 0))


def usage_object(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content, "citations": None}


def thinking(content: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": content, "signature": ""}


def arguments(json_text: str) -> dict[str, Any]:
    value = parsed_or_text(json_text)
    return value if isinstance(value, dict) else {RAW: json_text}
