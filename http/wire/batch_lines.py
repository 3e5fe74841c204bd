"""The lines of a batch: what is asked in each, and how its answer is written. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import attrs
import msgspec

from headrace.http.wire.json_text import parse_object
from headrace.runtime.errors import Code, RequestError

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
EMBEDDINGS, RESPONSES = "/v1/embeddings", "/v1/responses"
ENDPOINTS = (CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES)
MOST_LINES = 50_000
# Of what is wrong with the lines, so much is told.
MOST_FAULTS = 100
FIELDS = frozenset({"custom_id", "method", "url", "body"})


@attrs.frozen
class Line:
    """One request; numbers count from 1. `body` is what its route would get."""

    number: int
    custom_id: str
    body: dict[str, Any]


class BadLine(Exception):
    """What is wrong with a line, in the shape of the official `errors.data`."""

    def __init__(self, code: str, message: str, line: int, param: str | None = None) -> None:
        super().__init__(message)
        self.shown = {"code": code, "message": message, "line": line, "param": param}


def read_lines(data: bytes, endpoint: str) -> list[bytes]:
    """The lines of a file, each of which `read_line` can read. Empty ones do not count.

    Raises `RequestError` (invalid_value) with all that is wrong in its details.
    """
    lines = [line for line in data.split(b"\n") if line.strip()]
    if not 1 <= len(lines) <= MOST_LINES:
        text = f"The file must have 1 to {MOST_LINES} lines; it has {len(lines)}."
        raise refused([{"code": "invalid_file", "message": text, "line": None, "param": None}])
    faults: list[dict[str, Any]] = []
    names: set[str] = set()
    for number, line in enumerate(lines, start=1):
        try:
            name = read_line(number, line, endpoint).custom_id
            if name in names:
                text = f"The custom_id {name!r} is there twice."
                raise BadLine("duplicate_custom_id", text, number, "custom_id")
            names.add(name)
        except BadLine as bad:
            faults.append(bad.shown)
            if len(faults) == MOST_FAULTS:
                break
    if faults:
        raise refused(faults)
    return lines


def refused(faults: list[dict[str, Any]]) -> RequestError:
    first = faults[0]
    where = "" if first["line"] is None else f"line {first['line']}: "
    text = f"The file of the batch is not valid: {where}{first['message']}"
    return RequestError(Code.INVALID_VALUE, text, details={"errors": faults})


def read_line(number: int, data: bytes, endpoint: str) -> Line:
    """Raises `BadLine`."""
    try:
        value = parse_object(data)
    except RequestError:
        raise BadLine("invalid_json_line", "This line is no JSON object.", number) from None
    name, body = value.get("custom_id"), value.get("body")
    rules = [
        (not value.keys() - FIELDS, _first(value.keys() - FIELDS), "is not a field of a line"),
        (isinstance(name, str) and name != "", "custom_id", "must be a string with characters"),
        (value.get("method") == "POST", "method", "must be POST"),
        (value.get("url") == endpoint, "url", f"must be {endpoint}, as for the whole batch"),
        (isinstance(body, dict), "body", "must be an object"),
    ]
    for holds, param, rule in rules:
        if not holds:
            raise BadLine("invalid_request", f"{param} {rule}.", number, param)
    return Line(number, str(name), dict(body or {}))


def _first(names: Iterable[str]) -> str:
    return min(names, default="")


def drawn(file_id: str, number: int) -> bytes:
    """What stands for chance in a line: the same file brings the same answers again."""
    return hashlib.sha256(f"{file_id} {number}".encode()).digest()


def answer_line(request_id: str, custom_id: str, status: int, body: dict[str, Any]) -> bytes:
    """One line of the output file, or of the error file where `status` tells of a failure."""
    response = {"status_code": status, "request_id": request_id, "body": body}
    line = {"id": request_id, "custom_id": custom_id, "response": response, "error": None}
    return msgspec.json.encode(line) + b"\n"
