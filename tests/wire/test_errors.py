"""The error table: complete, and nothing of the inside in what it gives."""

from __future__ import annotations

import pytest

from headrace.http.wire.errors import CONDITIONS, condition, envelope, headers, internal_error
from headrace.runtime.errors import Code, ErrorInfo

FULL = ErrorInfo(Code.QUEUE_FULL, "Busy.", "n", {"ahead": 3}, retry_after_seconds=1.2)


@pytest.mark.parametrize("code", Code)
def test_every_code_has_its_row(code: Code) -> None:
    assert 400 <= CONDITIONS[code].status < 600


def test_the_openai_envelope() -> None:
    assert envelope(FULL, "openai", "req_1") == {
        "error": {
            "message": "Busy.",
            "type": "resource_admission",
            "param": "n",
            "code": "queue_full",
            "details": {"ahead": 3},
        }
    }


def test_the_anthropic_envelope() -> None:
    body = envelope(FULL, "anthropic", "req_1")
    assert (body["type"], body["request_id"]) == ("error", "req_1")
    assert body["error"]["type"] == "rate_limit_error"
    assert body["error"]["code"] == "queue_full"


def test_the_envelope_of_jobs() -> None:
    assert envelope(FULL, "jobs", "req_1") == {"ok": False, "error": "Busy."}


def test_a_retry_is_told_in_whole_seconds_and_in_milliseconds_q5() -> None:
    assert headers(FULL) == {"Retry-After": "2", "retry-after-ms": "1200"}


@pytest.mark.parametrize("code", [code for code in Code if CONDITIONS[code].retry])
def test_a_retry_is_told_even_where_nobody_knows_how_soon(code: Code) -> None:
    assert int(headers(ErrorInfo(code, "x"))["Retry-After"]) >= 1


def test_a_failure_that_stays_tells_clients_not_to_retry() -> None:
    assert headers(ErrorInfo(Code.LOAD_FAILED, "x")) == {"x-should-retry": "false"}


def test_a_worker_that_is_given_up_is_not_worth_a_retry() -> None:
    gone = ErrorInfo(Code.ENGINE_UNAVAILABLE, "x", details={"state": "exhausted"})
    restarting = ErrorInfo(Code.ENGINE_UNAVAILABLE, "x", details={"state": "restarting"})
    assert condition(gone).status == condition(restarting).status == 502
    assert headers(gone) == {"x-should-retry": "false"}
    assert "Retry-After" in headers(restarting)


def test_a_missing_key_is_a_challenge() -> None:
    found = headers(ErrorInfo(Code.MISSING_API_KEY, "x"))
    assert found == {"WWW-Authenticate": 'Bearer realm="headrace"'}


def test_an_unforeseen_failure_names_the_request_and_nothing_else() -> None:
    info = internal_error("req_1")
    assert "req_1" in info.message
    assert (info.param, info.details) == (None, None)
