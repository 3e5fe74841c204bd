"""Bodies of /v1/embeddings, and vectors as its clients read them."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.wire.asking import Stamp
from headrace.http.wire.openai_embeddings import MOST_INPUTS, parse
from headrace.runtime.contracts import Accepted, Event, Failed, Finished, Usage
from headrace.runtime.errors import Code, ErrorInfo, RequestError
from headrace.runtime.readings import Embedded

STAMP = Stamp("req_1", "ab", seed=1, created=2, route="/v1/embeddings")
floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


def run(*vectors: bytes, order: list[int] | None = None) -> list[Event]:
    read = [Embedded(index, vector) for index, vector in enumerate(vectors)]
    read = read if order is None else [read[index] for index in order]
    return [Accepted("m", 9, 0, "fp_1"), *read, Finished("stop", Usage(9, 0))]


def packed(vector: list[float]) -> bytes:
    return struct.pack(f"<{len(vector)}f", *vector)


@pytest.mark.parametrize(
    ("given_input", "inputs"),
    [
        ("text", ("text",)),
        (["one", "two"], ("one", "two")),
        ([1, 2, 3], ((1, 2, 3),)),
        ([[1], [2, 3]], ((1,), (2, 3))),
        ([3.0], ((3,),)),
    ],
)
def test_every_form_of_input_is_read(given_input: Any, inputs: Any) -> None:
    (request,) = parse({"input": given_input}, STAMP).requests
    assert request.inputs == inputs
    assert (request.id, request.model, request.route) == ("req_1", None, "/v1/embeddings")


def test_the_other_fields_are_read() -> None:
    body = {"input": "a", "model": "m", "dimensions": 8, "instruction": "find", "user": "me"}
    (request,) = parse(body, STAMP, "last").requests
    assert (request.model, request.dimensions, request.instruction) == ("m", 8, "find")
    assert request.pooling == "last"


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({}, Code.MISSING_FIELD, "input"),
        ({"input": None}, Code.MISSING_FIELD, "input"),
        ({"input": ""}, Code.INVALID_VALUE, "input"),
        ({"input": []}, Code.INVALID_VALUE, "input"),
        ({"input": ["a", ""]}, Code.INVALID_VALUE, "input[1]"),
        ({"input": [[1], []]}, Code.INVALID_VALUE, "input[1]"),
        ({"input": ["a", 5]}, Code.INVALID_TYPE, "input[1]"),
        ({"input": 5}, Code.INVALID_TYPE, "input"),
        ({"input": {"text": "a"}}, Code.INVALID_TYPE, "input"),
        ({"input": [1, -2]}, Code.INVALID_TOKEN_ID, "input[1]"),
        ({"input": [[1], [2, 2**40]]}, Code.INVALID_TOKEN_ID, "input[1][1]"),
        ({"input": ["a"] * (MOST_INPUTS + 1)}, Code.INVALID_VALUE, "input"),
        ({"input": "a", "encoding_format": "int8"}, Code.INVALID_VALUE, "encoding_format"),
        ({"input": "a", "dimensions": 0}, Code.INVALID_VALUE, "dimensions"),
        ({"input": "a", "dimensions": "8"}, Code.INVALID_TYPE, "dimensions"),
        ({"input": "a", "user": 5}, Code.INVALID_TYPE, "user"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_name(
    body: dict[str, Any], code: Code, param: str
) -> None:
    with pytest.raises(RequestError) as caught:
        parse(body, STAMP)
    assert (caught.value.code, caught.value.info.param) == (code, param)


@given(st.lists(st.lists(floats, min_size=3, max_size=3), min_size=1, max_size=5), st.data())
def test_vectors_come_in_the_order_of_the_inputs_whatever_order_they_were_computed_in(
    vectors: list[list[float]], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(vectors))))
    asked = parse({"input": ["a"] * len(vectors)}, STAMP)
    answer = json.loads(json.dumps(asked.complete(run(*map(packed, vectors), order=order))))
    assert [entry["index"] for entry in answer["data"]] == list(range(len(vectors)))
    assert [entry["embedding"] for entry in answer["data"]] == vectors
    assert answer["usage"] == {"prompt_tokens": 9, "total_tokens": 9}
    assert (answer["object"], answer["model"]) == ("list", "m")


@given(st.lists(floats, min_size=1))
def test_base64_decodes_to_the_very_numbers_that_float_shows_p1(vector: list[float]) -> None:
    told = parse({"input": "a", "encoding_format": "base64"}, STAMP).complete(run(packed(vector)))
    shown = parse({"input": "a"}, STAMP).complete(run(packed(vector)))
    decoded = base64.b64decode(told["data"][0]["embedding"])
    assert list(struct.unpack(f"<{len(vector)}f", decoded)) == shown["data"][0]["embedding"]


def test_a_failure_is_raised() -> None:
    failed = Failed(ErrorInfo(Code.ENGINE_UNAVAILABLE, "gone"))
    with pytest.raises(RequestError, match="gone"):
        parse({"input": "a"}, STAMP).complete([Accepted("m", 9, 0, "fp_1"), failed])
