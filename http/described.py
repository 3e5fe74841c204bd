"""The whole description of the routes: those that read a model, and notes, live view and page."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.actors.notes.order import SynthesizeConfig
from headrace.http.wire.openapi import document
from headrace.http.wire.rules import Schema

REFERENCES = "#/components/schemas/{name}"
JOB_ANSWER: Schema = {
    "type": "object",
    "required": ["ok", "job"],
    "properties": {
        "ok": {"const": True},
        "job": {
            "type": "object",
            "required": ["id", "kind", "status", "config", "progress"],
            "properties": {
                "id": {"type": "string"},
                "kind": {"type": "string"},
                "status": {"enum": ["queued", "running", "done", "failed", "cancelled", "zombie"]},
                "config": {"type": "object"},
                "progress": {"type": "number", "minimum": 0, "maximum": 1},
            },
        },
    },
}
NAME: Schema = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}


def described(version: str) -> Schema:
    """In OpenAPI 3.1. The body of a job for notes is described by the type that it is read by."""
    whole = document(version)
    whole["paths"] |= _paths()
    _, found = msgspec.json.schema_components([SynthesizeConfig], ref_template=REFERENCES)
    whole["components"]["schemas"] |= {"JobAnswer": JOB_ANSWER, **found}
    return whole


def _paths() -> Schema:
    return {
        "/v1/memory/synthesize": {
            "post": {
                "summary": "Keep a conversation as notes, in a job",
                "operationId": "synthesize",
                "requestBody": {"required": True, "content": _json("SynthesizeConfig")},
                "responses": {
                    "202": {"description": "the job, queued", "content": _json("JobAnswer")},
                    **_refusals(),
                },
            }
        },
        "/live": _got(
            "Watch what runs, four times a second", "live", "text/event-stream", "snapshots"
        ),
        "/page/{name}": _got("Get a file of the web page", "pagePart", "*/*", "the file", NAME),
    }


def _got(
    summary: str, name: str, content_type: str, description: str, *parameters: Schema
) -> Schema:
    content = {content_type: {"schema": {"type": "string"}}}
    answers = {"200": {"description": description, "content": content}, **_refusals()}
    asked = {"summary": summary, "operationId": name, "responses": answers}
    return {"get": asked | ({"parameters": list(parameters)} if parameters else {})}


def _refusals() -> dict[str, Any]:
    refusal = {"description": "what was wrong", "content": _json("Error")}
    return {"4XX": refusal, "5XX": refusal}


def _json(name: str) -> Schema:
    return {"application/json": {"schema": {"$ref": REFERENCES.format(name=name)}}}
