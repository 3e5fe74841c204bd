"""What a list of messages means for the answer to it, whatever protocol it came in."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.http.wire.fields import wrong_value
from headrace.runtime.contracts import Message


def continues_final(messages: Sequence[Message], asked: bool | None) -> bool:
    """Whether the last assistant message is left open for the model to go on with.

    System messages do not count: their place in the list means nothing.
    """
    spoken = [message for message in messages if message.role != "system"]
    can = bool(spoken) and spoken[-1].role == "assistant" and not spoken[-1].tool_calls
    if asked and not can:
        rule = "needs a last message of role assistant without tool calls"
        raise wrong_value("continue_final_message", rule)
    return can if asked is None else asked
