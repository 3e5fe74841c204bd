"""Bodies and answers of embeddings and decisions as JSON schemas."""

from __future__ import annotations

from headrace.http.wire import decisions, systemone
from headrace.http.wire.openai_embeddings import MOST_INPUTS, RULES
from headrace.http.wire.openai_schemas import IDS
from headrace.http.wire.rules import Schema, any_of, properties
from headrace.http.wire.schema_parts import STRING, WARNINGS

NAME: Schema = {"type": ["string", "null"]}
COUNT: Schema = {"type": "integer", "minimum": 0}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
TEXT: Schema = {"type": "string", "minLength": 1}
EVIDENCE: Schema = {"type": ["string", "object", "array"]}


def _object(required: list[str], **members: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": members}


def _array(items: Schema, least: int = 1, most: int | None = None) -> Schema:
    limit = {} if most is None else {"maxItems": most}
    return {"type": "array", "minItems": least, "items": items, **limit}


def _map(values: Schema, most: int | None = None) -> Schema:
    limit = {} if most is None else {"maxProperties": most}
    return {"type": "object", "minProperties": 1, "additionalProperties": values, **limit}


# ---- embeddings ----------------------------------------------------------------------------


def embedding_request() -> Schema:
    given = any_of(TEXT, _array(TEXT, most=MOST_INPUTS), IDS, _array(IDS, most=MOST_INPUTS))
    return _object(["input"], input=given, **properties(RULES))


EMBEDDING: Schema = _object(
    ["object", "index", "embedding"],
    object={"const": "embedding"},
    index=COUNT,
    embedding=any_of(_array({"type": "number"}), STRING),
)
EMBEDDING_ANSWER: Schema = _object(
    ["object", "model", "data", "usage"],
    object={"const": "list"},
    model=STRING,
    data=_array(EMBEDDING),
    usage=_object(["prompt_tokens", "total_tokens"], prompt_tokens=COUNT, total_tokens=COUNT),
    warnings=WARNINGS,
)

# ---- decisions in the shape of Jev ---------------------------------------------------------


def _asked(kind: str, criteria: Schema, *required: str) -> Schema:
    members = {"type": {"const": kind}, "instructions": EVIDENCE, "criteria": criteria}
    return _object(["type", *required], **members)


CRITERIA: Schema = {"type": "object", "properties": {"true": EVIDENCE, "false": EVIDENCE}}
JEV_QUESTION: Schema = any_of(
    _asked("noul", CRITERIA),
    _asked("choice", _map(any_of(EVIDENCE, {"type": "null"}), systemone.MOST_LABELS), "criteria"),
    _asked("score", _array(EVIDENCE, most=systemone.MOST_LEVELS), "criteria"),
)
SYSTEM_ONE_REQUEST: Schema = _object(
    ["state", "questions"], model=STRING, state=EVIDENCE, questions=_map(JEV_QUESTION)
)
JEV_ANSWER: Schema = any_of(
    _object(["type", "noul"], type={"const": "noul"}, noul=SHARE),
    _object(
        ["type", "choice", "confidence", "probabilities"],
        type={"const": "choice"},
        choice=STRING,
        confidence=SHARE,
        probabilities=_map(SHARE),
    ),
    _object(
        ["type", "score", "confidence", "legend", "probabilities"],
        type={"const": "score"},
        score={"type": "number", "minimum": 0},
        confidence=SHARE,
        legend=_map(EVIDENCE),
        probabilities=_map(SHARE),
    ),
)
SYSTEM_ONE_ANSWER: Schema = _object(
    ["id", "model", "answers", "usage"],
    id=STRING,
    model=STRING,
    answers=_map(JEV_ANSWER),
    usage=_object(["input_tokens", "output_tokens"], input_tokens=COUNT, output_tokens=COUNT),
    warnings=WARNINGS,
)

# ---- decisions in the shape of OpenAI ------------------------------------------------------

INSTRUCTIONS: Schema = any_of(STRING, _array({"type": "object"}, least=0))
CHOICE: Schema = _object(["value"], value={"type": ["string", "boolean"]}, description=NAME)
LEVEL: Schema = _object(["label"], label=STRING, description=NAME)


def _put(kind: str, **members: Schema) -> Schema:
    required = ["type", "instructions", *members]
    shared: dict[str, Schema] = {"instructions": INSTRUCTIONS, "name": NAME}
    return _object(required, type={"const": kind}, **shared, **members)


QUESTION: Schema = any_of(
    _put("predicate"),
    _put("choice", choices=_array(CHOICE, 2, decisions.MOST_CHOICES)),
    _put("score", levels=_array(LEVEL, 2, decisions.MOST_LEVELS)),
)
DECISION_REQUEST: Schema = any_of(
    _object(
        ["input", "questions"],
        input=any_of(STRING, _array({"type": "object"})),
        questions=_array(QUESTION),
        **properties(decisions.RULES),
    ),
    SYSTEM_ONE_REQUEST,
)
TOLD: Schema = _object(["value", "probability"], probability=SHARE)
ANSWER: Schema = any_of(
    _object(
        ["type", "name", "probability"],
        type={"const": "predicate"},
        name=NAME,
        probability=SHARE,
    ),
    _object(
        ["type", "name", "choice", "confidence", "probabilities"],
        type={"const": "choice"},
        name=NAME,
        choice={"type": ["string", "boolean"]},
        confidence=SHARE,
        probabilities=_array(TOLD),
    ),
    _object(
        ["type", "name", "score", "confidence", "probabilities"],
        type={"const": "score"},
        name=NAME,
        score={"type": "number", "minimum": 0},
        confidence=SHARE,
        probabilities=_array(TOLD),
    ),
)
DECISION_ANSWER: Schema = any_of(
    _object(
        ["model", "answers", "usage"],
        model=STRING,
        answers=_array(ANSWER),
        usage=_object(
            ["input_tokens", "output_tokens", "total_tokens"],
            input_tokens=COUNT,
            output_tokens=COUNT,
            total_tokens=COUNT,
        ),
        warnings=WARNINGS,
    ),
    SYSTEM_ONE_ANSWER,
)
