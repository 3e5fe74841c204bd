"""The items of a response while they grow, and the events that tell of it (wire contract 7.5).

An event is its name and its members; who writes the stream numbers and frames them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from headrace.http.wire.json_text import parsed_or_text
from headrace.http.wire.openai_logprobs import chat_scores
from headrace.http.wire.responses_items import CUSTOM_INPUT
from headrace.http.wire.responses_tools import Offered
from headrace.runtime.contracts import ScoredToken

Status: TypeAlias = Literal["in_progress", "completed", "incomplete"]
Told: TypeAlias = tuple[str, dict[str, Any]]
Item: TypeAlias = dict[str, Any]


class Growing(ABC):
    """One output item. `index` is its place in the output."""

    def __init__(self, item_id: str, index: int) -> None:
        self._id = item_id
        self._place = {"item_id": item_id, "output_index": index}
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def more(self, text: str, scored: Sequence[ScoredToken] = ()) -> list[Told]:
        self._pieces.append(text)
        return self._delta(text, scored)

    @abstractmethod
    def item(self, status: Status) -> Item:
        """The item as far as it has come."""

    @abstractmethod
    def bare(self) -> Item:
        """The item before anything is in it."""

    def opening(self) -> list[Told]:
        """What follows the item's being added."""
        return []

    @abstractmethod
    def _delta(self, text: str, scored: Sequence[ScoredToken]) -> list[Told]: ...

    @abstractmethod
    def closing(self) -> list[Told]:
        """What comes before the item's being done."""


class MessageItem(Growing):
    def __init__(self, item_id: str, index: int) -> None:
        super().__init__(item_id, index)
        self._place |= {"content_index": 0}
        self._scored: list[ScoredToken] = []

    def bare(self) -> Item:
        return self._whole("in_progress", [])

    def item(self, status: Status) -> Item:
        return self._whole(status, [self._part()])

    def opening(self) -> list[Told]:
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        return [("response.content_part.added", self._place | {"part": part})]

    def _delta(self, text: str, scored: Sequence[ScoredToken]) -> list[Told]:
        self._scored += scored
        members = {"delta": text, "logprobs": _brief(scored)}
        return [("response.output_text.delta", self._place | members)]

    def closing(self) -> list[Told]:
        done = {"text": self.text, "logprobs": _brief(self._scored)}
        return [
            ("response.output_text.done", self._place | done),
            ("response.content_part.done", self._place | {"part": self._part()}),
        ]

    def _part(self) -> Item:
        logprobs = chat_scores(self._scored)["content"]
        return {
            "type": "output_text",
            "text": self.text,
            "annotations": [],
            "logprobs": logprobs,
        }

    def _whole(self, status: Status, content: list[Item]) -> Item:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": content,
        }


class ReasoningItem(Growing):
    """Reasoning is told once: as it is, or as its own summary where one was asked for."""

    def __init__(self, item_id: str, index: int, *, summary: bool) -> None:
        super().__init__(item_id, index)
        self._summary = summary
        self._place |= {"summary_index": 0} if summary else {"content_index": 0}
        kind = "reasoning_summary_text" if summary else "reasoning_text"
        self._event = f"response.{kind}"
        self._part_event = f"response.{'reasoning_summary_part' if summary else 'content_part'}"

    def bare(self) -> Item:
        return self._whole("in_progress", [])

    def item(self, status: Status) -> Item:
        return self._whole(status, [self._part(self.text)])

    def opening(self) -> list[Told]:
        return [(f"{self._part_event}.added", self._place | {"part": self._part("")})]

    def _delta(self, text: str, scored: Sequence[ScoredToken]) -> list[Told]:
        return [(f"{self._event}.delta", self._place | {"delta": text})]

    def closing(self) -> list[Told]:
        return [
            (f"{self._event}.done", self._place | {"text": self.text}),
            (f"{self._part_event}.done", self._place | {"part": self._part(self.text)}),
        ]

    def _part(self, text: str) -> Item:
        return {"type": "summary_text" if self._summary else "reasoning_text", "text": text}

    def _whole(self, status: Status, parts: list[Item]) -> Item:
        told = {"summary": parts} if self._summary else {"summary": [], "content": parts}
        return {
            "id": self._id,
            "type": "reasoning",
            **told,
            "encrypted_content": None,
            "status": status,
        }


class CallItem(Growing):
    def __init__(self, item_id: str, index: int, call_id: str, offered: Offered) -> None:
        super().__init__(item_id, index)
        self._call = {"call_id": call_id, "name": offered.name}
        if offered.namespace is not None:
            self._call["namespace"] = offered.namespace

    def bare(self) -> Item:
        return self._whole("in_progress", "")

    def item(self, status: Status) -> Item:
        return self._whole(status, self.text)

    def _delta(self, text: str, scored: Sequence[ScoredToken]) -> list[Told]:
        return [("response.function_call_arguments.delta", self._place | {"delta": text})]

    def closing(self) -> list[Told]:
        done = {"arguments": self.text, "name": self._call["name"]}
        return [("response.function_call_arguments.done", self._place | done)]

    def _whole(self, status: Status, arguments: str) -> Item:
        return {
            "id": self._id,
            "type": "function_call",
            **self._call,
            "arguments": arguments,
            "status": status,
        }


class CustomItem(Growing):
    """A call with a text. The model writes it inside of an object, so it is told at its end."""

    def __init__(self, item_id: str, index: int, call_id: str, offered: Offered) -> None:
        super().__init__(item_id, index)
        self._call = {"call_id": call_id, "name": offered.name}

    def bare(self) -> Item:
        return self._whole("in_progress", "")

    def item(self, status: Status) -> Item:
        return self._whole(status, self._input())

    def _delta(self, text: str, scored: Sequence[ScoredToken]) -> list[Told]:
        return []

    def closing(self) -> list[Told]:
        text = self._input()
        return [
            ("response.custom_tool_call_input.delta", self._place | {"delta": text}),
            ("response.custom_tool_call_input.done", self._place | {"input": text}),
        ]

    def _input(self) -> str:
        """The text, or all that was written where it is no object with one."""
        value = parsed_or_text(self.text)
        text = value.get(CUSTOM_INPUT) if isinstance(value, dict) else None
        return text if isinstance(text, str) else self.text

    def _whole(self, status: Status, text: str) -> Item:
        return {
            "id": self._id,
            "type": "custom_tool_call",
            **self._call,
            "input": text,
            "status": status,
        }


def _brief(scored: Sequence[ScoredToken]) -> list[Item]:
    """Scores as events tell them: without the bytes."""
    return [
        {
            "token": entry["token"],
            "logprob": entry["logprob"],
            "top_logprobs": [
                {"token": other["token"], "logprob": other["logprob"]}
                for other in entry["top_logprobs"]
            ],
        }
        for entry in chat_scores(scored)["content"]
    ]
