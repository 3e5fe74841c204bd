"""The form of an answer, under every name that it has on the OpenAI routes."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.http.wire.constraints import read_constraint
from headrace.http.wire.fields import Fields
from headrace.runtime.constraints import Constraint
from headrace.runtime.errors import Code, RequestError

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def schema_format(**described: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": described}


def read(**fields: Any) -> Constraint | None:
    return read_constraint(Fields(fields))


@pytest.mark.parametrize(
    "fields", [{}, {"response_format": {"type": "text"}}, {"structured_outputs": {}}]
)
def test_free_text_has_no_form(fields: dict[str, Any]) -> None:
    assert read(**fields) is None


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        (
            {"response_format": {"type": "json_object"}},
            Constraint("json_object", param="response_format"),
        ),
        (
            {"response_format": schema_format(name="n", schema=SCHEMA, strict=True)},
            Constraint("json_schema", SCHEMA, param="response_format.json_schema.schema"),
        ),
        ({"guided_json": SCHEMA}, Constraint("json_schema", SCHEMA, param="guided_json")),
        (
            {"guided_json": '{"type":"null"}'},
            Constraint("json_schema", {"type": "null"}, param="guided_json"),
        ),
        ({"guided_regex": "a+"}, Constraint("regex", "a+", param="guided_regex")),
        ({"guided_choice": ["a", "b"]}, Constraint("choice", ("a", "b"), param="guided_choice")),
        (
            {"guided_grammar": 'start: "a"'},
            Constraint("lark", 'start: "a"', param="guided_grammar"),
        ),
        (
            {"structured_outputs": {"json": SCHEMA}},
            Constraint("json_schema", SCHEMA, param="structured_outputs.json"),
        ),
        (
            {"structured_outputs": {"choice": ["a"]}, "response_format": {"type": "text"}},
            Constraint("choice", ("a",), param="structured_outputs.choice"),
        ),
        (
            {"structured_outputs": {"regex": "a", "grammar": None}},
            Constraint("regex", "a", param="structured_outputs.regex"),
        ),
    ],
)
def test_every_name_of_a_form(fields: dict[str, Any], constraint: Constraint) -> None:
    assert read(**fields) == constraint


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"),
        (
            {"response_format": {"type": "json_object"}, "guided_json": SCHEMA},
            "guided_json",
        ),
        (
            {"structured_outputs": {"regex": "a", "json": SCHEMA}},
            "structured_outputs.regex",
        ),
        (
            {"guided_json": SCHEMA, "structured_outputs": {"json": SCHEMA}},
            "structured_outputs.json",
        ),
    ],
)
def test_an_answer_has_one_form(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(**fields)
    assert caught.value.code is Code.CONFLICTING_CONSTRAINTS
    assert caught.value.info.param == param


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"response_format": "json"}, Code.INVALID_TYPE, "response_format"),
        ({"response_format": {}}, Code.MISSING_FIELD, "response_format.type"),
        ({"response_format": {"type": "xml"}}, Code.INVALID_VALUE, "response_format.type"),
        (
            {"response_format": {"type": "json_schema"}},
            Code.MISSING_FIELD,
            "response_format.json_schema",
        ),
        (
            {"response_format": schema_format(schema={})},
            Code.MISSING_FIELD,
            "response_format.json_schema.name",
        ),
        (
            {"response_format": schema_format(name="n")},
            Code.MISSING_FIELD,
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": schema_format(name="n", schema=[])},
            Code.INVALID_TYPE,
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": schema_format(name="n", schema={}, strict=1)},
            Code.INVALID_TYPE,
            "response_format.json_schema.strict",
        ),
        ({"guided_json": "{oops"}, Code.INVALID_SCHEMA, "guided_json"),
        ({"guided_json": "[]"}, Code.INVALID_SCHEMA, "guided_json"),
        ({"guided_json": []}, Code.INVALID_TYPE, "guided_json"),
        ({"guided_json": {"maximum": 10**30}}, Code.INVALID_VALUE, "guided_json"),
        ({"guided_regex": 1}, Code.INVALID_TYPE, "guided_regex"),
        ({"guided_choice": "a"}, Code.INVALID_TYPE, "guided_choice"),
        ({"guided_choice": []}, Code.INVALID_VALUE, "guided_choice"),
        ({"guided_choice": ["a"] * 1001}, Code.INVALID_VALUE, "guided_choice"),
        ({"guided_choice": ["a", 1]}, Code.INVALID_TYPE, "guided_choice[1]"),
        ({"guided_grammar": {}}, Code.INVALID_TYPE, "guided_grammar"),
        ({"structured_outputs": "x"}, Code.INVALID_TYPE, "structured_outputs"),
        ({"structured_outputs": {"regex": 1}}, Code.INVALID_TYPE, "structured_outputs.regex"),
    ],
)
def test_a_form_that_is_none_i5(fields: dict[str, Any], code: Code, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(**fields)
    assert (caught.value.code, caught.value.info.param) == (code, param)
