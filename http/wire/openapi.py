"""Our own description of the routes, in OpenAPI 3.1, made from the tables that they are read by."""

from __future__ import annotations

from typing import Any

from headrace.http.wire.openai_schemas import (
    CHAT_ANSWER,
    COMPLETION_ANSWER,
    chat_request,
    completion_request,
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
    }
    schemas = {
        "ChatRequest": chat_request(),
        "ChatAnswer": CHAT_ANSWER,
        "CompletionRequest": completion_request(),
        "CompletionAnswer": COMPLETION_ANSWER,
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
    answer: dict[str, Any] = {
        "description": "the answer",
        "content": {
            "application/json": {"schema": _reference(f"{name}Answer")},
            "text/event-stream": {"schema": {"type": "string"}},
        },
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
