"""What clients ask: one row for each protocol and way of asking. A new protocol is a new row."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs

from headrace.runtime.testing.site import Reply, http

WORDS = ("river", "mill", "moon", "bread", "clock", "snow", "bridge", "salt", "wheel", "stone")
Fields: TypeAlias = Mapping[str, Any]
# What a server under faults and overload may answer; anything else is a violation.
TYPED = {
    "queue_full",
    "queue_timeout",
    "engine_unavailable",
    "model_unloaded",
    "request_cancelled",
    "does-not-fit",
    "context_over_budget",
}
TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}
FORM = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "schema": {
            "type": "object",
            "properties": {"ok": {"type": "boolean"}},
            "required": ["ok"],
            "additionalProperties": False,
        },
    },
}


def messages(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def plain(text: str) -> dict[str, Any]:
    return {"prompt": text}


def given(text: str) -> dict[str, Any]:
    # What is stored would count as memory that grows.
    return {"input": text, "store": False}


def only_input(text: str) -> dict[str, Any]:
    return {"input": text}


@attrs.frozen
class Protocol:
    """A stream has exactly one of `done` or `error`, and has it in its last frame."""

    path: str
    prompt: Callable[[str], dict[str, Any]]
    done: tuple[bytes, ...] = (b"data: [DONE]",)
    error: bytes = b'data: {"error":'
    # None: generated tokens cannot be capped there.
    cap: str | None = "max_tokens"


CHAT = Protocol("/v1/chat/completions", messages)
COMPLETIONS = Protocol("/v1/completions", plain)
MESSAGES = Protocol("/v1/messages", messages, (b"event: message_stop\n",), b"event: error\n")
RESPONSES = Protocol(
    "/v1/responses",
    given,
    (b"event: response.completed\n", b"event: response.incomplete\n"),
    b"event: response.failed\n",
    "max_output_tokens",
)
EMBEDDINGS = Protocol("/v1/embeddings", only_input, cap=None)


@attrs.frozen
class Ask:
    """One way of asking. `weight` says how often it comes; `droppable` that it can be long."""

    name: str
    protocol: Protocol
    weight: int
    fields: Fields = MappingProxyType({})
    stream: bool = False
    droppable: bool = True

    def request(self, draw: random.Random, model: str, name: str, max_tokens: int | None) -> bytes:
        """The bytes of one request with the id `name`, on a connection of its own."""
        words = " ".join(draw.choice(WORDS) for _ in range(draw.choice((1, 3, 8, 40))))
        body = {"model": model, **self.protocol.prompt(words), **self.fields}
        if self.protocol.cap is not None:
            tokens = {} if max_tokens is None else {"ignore_eos": True}
            body |= {self.protocol.cap: max_tokens or draw.randint(1, 8), **tokens}
        if self.stream:
            body["stream"] = True
        return http(
            "POST",
            self.protocol.path,
            json.dumps(body).encode(),
            headers={"X-Request-ID": name},
        )


SAMPLED = {"temperature": 1.0, "top_p": 0.9, "top_k": 40, "seed": 3}
PENALTIES = {"repetition_penalty": 1.2, "presence_penalty": 0.5, "logit_bias": {"5": 1}}
TABLE = (
    Ask("chat", CHAT, 20),
    Ask("chat, streamed", CHAT, 30, stream=True),
    Ask("chat, sampled, streamed", CHAT, 10, SAMPLED, stream=True),
    Ask("chat, penalties", CHAT, 5, PENALTIES),
    Ask("chat, three choices", CHAT, 3, {"n": 3, "temperature": 1.0}),
    Ask("chat, two choices, streamed", CHAT, 3, {"n": 2, "temperature": 1.0}, stream=True),
    Ask("chat, log-probabilities", CHAT, 3, {"logprobs": True, "top_logprobs": 3}),
    Ask("chat, tools", CHAT, 3, {"tools": [TOOL]}),
    Ask("chat, tools, streamed", CHAT, 3, {"tools": [TOOL]}, stream=True),
    Ask("chat, a form", CHAT, 3, {"response_format": FORM}, droppable=False),
    Ask("chat, stop strings", CHAT, 2, {"stop": ["e", "river"]}, droppable=False),
    Ask("completion", COMPLETIONS, 8),
    Ask("completion, streamed", COMPLETIONS, 8, stream=True),
    Ask("completion, scored", COMPLETIONS, 3, {"logprobs": 2}),
    Ask("message", MESSAGES, 6),
    Ask("message, streamed", MESSAGES, 8, stream=True),
    Ask("response", RESPONSES, 6),
    Ask("response, streamed", RESPONSES, 8, stream=True),
    Ask("embedding", EMBEDDINGS, 5, droppable=False),
)


def judged(ask: Ask, data: bytes) -> str:
    """What an answer that was read to its end comes to: `ok`, the code of a typed error, or a
    sentence with spaces in it, which is a violation."""
    if not data:
        return "the connection ended without an answer"
    try:
        reply = Reply.of(data)
        if reply.status == 200:
            return _stream(ask, reply) if ask.stream else _whole(reply)
        code = reply.json["error"]["code"]
    except (ValueError, IndexError, KeyError, AssertionError) as error:
        return f"the answer cannot be read: {error!r}"
    return code if code in TYPED else f"refused with status {reply.status} and code {code}"


def _whole(reply: Reply) -> str:
    usage = reply.json.get("usage") or {}
    return "ok" if usage.get("total_tokens", 1) > 0 else f"an answer of nothing: {usage}"


def _stream(ask: Ask, reply: Reply) -> str:
    protocol = ask.protocol
    ends = sum(reply.body.count(mark) for mark in (*protocol.done, protocol.error))
    if ends != 1:
        return f"a stream with {ends} ends: {reply.frames[-2:]}"
    last = reply.frames[-1]
    if any(mark.decode().strip() in last for mark in protocol.done):
        return "ok"
    told = "".join(reply.frames[-2:])
    # A response says so in its status; codes of errors are OpenAI's own there.
    if protocol is RESPONSES and '"status":"cancelled"' in told:
        return "request_cancelled"
    return next((code for code in TYPED if f'"{code}"' in told), f"a stream ended with {last}")
