"""The harmony format of gpt-oss: an answer is a row of messages, each with a header.

    <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…

The channel says what a message is, `to=functions.f` in its header that it is a call. The form is
described in OpenAI's harmony guide.
"""

from __future__ import annotations

import attrs
import regex

from headrace.actors.text.calls import Answer, ignore, read_arguments
from headrace.actors.text.reader import Steps
from headrace.actors.text.reasoning import Start

# From the first mark, or from the recipient where the prompt ends with the mark before it.
HEADER = regex.compile(
    r"\s{0,64}(?=<\|(?:start|channel|constrain|message)\|>|to=)"
    r"(?:[^<]|<(?!\|message\|>)){0,512}<\|message\|>"
)
RECIPIENT = regex.compile(r"to=(?:functions\.)?([\w.-]{1,128})")
CHANNEL = regex.compile(r"<\|channel\|>\s*(\w+)")
# A message ends with a mark of its own, or where the next header begins.
END = regex.compile(r"<\|(?:end|call|return)\|>|(?=<\|(?:start|channel)\|>)")
CLOSE = regex.compile(r"(?=<\|(?:end|call|return|start|channel)\|>)")
NAMES = ("start", "channel", "constrain", "message", "end", "call", "return")
MARKS = frozenset(f"<|{name}|>" for name in NAMES)


@attrs.frozen
class HarmonyMarkup:
    """Analysis is reasoning; the final message and commentary to nobody in particular are text."""

    @property
    def closing(self) -> str:
        return f"{self.ending}<|channel|>final<|message|>"

    @property
    def ending(self) -> str:
        return "<|end|><|start|>assistant"

    def shows(self, token: str) -> bool:
        return token in MARKS

    def start(self, prompt: str, begun: str = "") -> Start:
        if prompt.rstrip().endswith("<|channel|>analysis<|message|>"):
            return "inside"
        return "after" if begun else "before"

    def read(self, answer: Answer, start: Start) -> Steps[None]:
        if start == "inside":
            yield from _read_analysis(answer, 0)
        elif start == "after":
            yield from _read_text(answer)
        while not answer.reader.over:
            yield from _read_message(answer)


def _read_message(answer: Answer) -> Steps[None]:
    reader, sink = answer.reader, answer.sink
    yield from reader.peek()
    reader.mark()
    found = yield from reader.take(HEADER)
    if found is None:
        reader.forget()
        if not reader.over:
            sink.text(reader.skip(), reader.position - 1)
            yield from _read_text(answer)
        return
    header = found.group()
    if (recipient := RECIPIENT.search(header)) is not None:
        yield from _read_call(answer, recipient[1])
        return
    _, at = reader.taken()
    channel = CHANNEL.search(header)
    if channel is not None and channel[1] == "analysis":
        yield from _read_analysis(answer, at)
    else:
        yield from _read_text(answer)


def _read_text(answer: Answer) -> Steps[None]:
    yield from answer.reader.until(END, answer.sink.text)


def _read_analysis(answer: Answer, at: int) -> Steps[None]:
    reader, sink = answer.reader, answer.sink
    sink.open_block(at)
    found = yield from reader.until(END, lambda text, _: sink.reasoning(text))
    if found is not None:
        sink.close_block(reader.position)


def _read_call(answer: Answer, name: str) -> Steps[None]:
    shape = answer.start_call(name)
    if shape is None:
        answer.sink.text(*answer.reader.taken())
        yield from _read_text(answer)
    else:
        yield from read_arguments(answer, shape, CLOSE)
        yield from answer.reader.until(END, ignore)
