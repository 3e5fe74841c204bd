"""Our own description of the routes, in OpenAPI 3.1, made from the tables that they are read by."""

from __future__ import annotations

from typing import Any

from headrace.http.wire import reading_schemas
from headrace.http.wire.anthropic_schemas import (
    MESSAGE_ANSWER,
    MESSAGE_COUNT_ANSWER,
    message_count_request,
    message_request,
)
from headrace.http.wire.openai_schemas import (
    CHAT_ANSWER,
    COMPLETION_ANSWER,
    chat_request,
    completion_request,
)
from headrace.http.wire.responses_schemas import (
    RESPONSE_ANSWER,
    RESPONSE_COUNT_ANSWER,
    response_request,
)
from headrace.http.wire.rules import Schema

ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
                "details": {"type": "object"},
            },
        }
    },
}


def document(version: str) -> Schema:
    """The whole description. `version` is that of the server."""
    paths = {
        "/v1/chat/completions": _generating("Answer a conversation", "Chat"),
        "/v1/completions": _generating("Go on with a text", "Completion"),
        "/v1/messages": _generating("Answer a conversation", "Message"),
        "/v1/messages/count_tokens": _whole("Count a prompt's tokens", "MessageCount"),
        "/v1/responses": _generating("Answer a conversation and keep it", "Response"),
        "/v1/responses/input_tokens": _whole("Count an input's tokens", "ResponseCount"),
        "/v1/embeddings": _whole("Turn texts into vectors", "Embedding"),
        "/v1/systemone": _whole("Judge a state by named questions", "SystemOne"),
        "/v1/decisions": _whole("Judge an input by questions", "Decision"),
    }
    schemas = {
        "ChatRequest": chat_request(),
        "ChatAnswer": CHAT_ANSWER,
        "CompletionRequest": completion_request(),
        "CompletionAnswer": COMPLETION_ANSWER,
        "EmbeddingRequest": reading_schemas.embedding_request(),
        "EmbeddingAnswer": reading_schemas.EMBEDDING_ANSWER,
        "SystemOneRequest": reading_schemas.SYSTEM_ONE_REQUEST,
        "SystemOneAnswer": reading_schemas.SYSTEM_ONE_ANSWER,
        "DecisionRequest": reading_schemas.DECISION_REQUEST,
        "DecisionAnswer": reading_schemas.DECISION_ANSWER,
        "MessageRequest": message_request(),
        "MessageAnswer": MESSAGE_ANSWER,
        "MessageCountRequest": message_count_request(),
        "MessageCountAnswer": MESSAGE_COUNT_ANSWER,
        "ResponseRequest": response_request(),
        "ResponseAnswer": RESPONSE_ANSWER,
        "ResponseCountRequest": response_request(),
        "ResponseCountAnswer": RESPONSE_COUNT_ANSWER,
        "Error": ERROR,
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "headrace", "version": version},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"key": BEARER}},
        "security": [{}, {"key": []}],
    }


BEARER: Schema = {"type": "http", "scheme": "bearer"}


def _generating(summary: str, name: str) -> Schema:
    """A route that answers with JSON, or with an event stream if it was asked to."""
    return _route(summary, name, {"text/event-stream": {"schema": {"type": "string"}}})


def _whole(summary: str, name: str) -> Schema:
    """A route that answers with JSON."""
    return _route(summary, name, {})


def _route(summary: str, name: str, more: dict[str, Any]) -> Schema:
    """`more` are the further forms of its answer."""
    answer: dict[str, Any] = {
        "description": "the answer",
        "content": {"application/json": {"schema": _reference(f"{name}Answer")}, **more},
    }
    refusal = {
        "description": "what was wrong",
        "content": {"application/json": {"schema": _reference("Error")}},
    }
    body = {"application/json": {"schema": _reference(f"{name}Request")}}
    return {
        "post": {
            "summary": summary,
            "operationId": name[0].lower() + name[1:],
            "requestBody": {"required": True, "content": body},
            "responses": {"200": answer, "4XX": refusal, "5XX": refusal},
        }
    }


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
