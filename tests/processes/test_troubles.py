"""What fails inside a worker stands in the parent's trace and log, under its request."""

from __future__ import annotations

import logging

import pytest

from headrace.actors.wire import FROM_WORKER, Noted
from headrace.http.logs import log_lifecycle
from headrace.runtime.testing.planned import WorkerModel
from headrace.runtime.testing.site import chat
from headrace.runtime.testing.workers import open_workers


async def test_a_row_that_fails_in_a_worker_is_logged_with_its_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_workers(WorkerModel(id="one", fails_at=3)) as site:
        log_lifecycle(site.runtime)
        with caplog.at_level(logging.INFO, "headrace.http.models"):
            request = chat("private words").replace(b"Host:", b"X-Request-ID: mine\r\nHost:", 1)
            reply = await site.call(request)
        assert (reply.status, reply.code) == (500, "generation_failed")
        (event,) = site.runtime.trace.events("row.failed")
        assert event.fields["model"] == "one"
        lines = [record for record in caplog.records if "row.failed" in record.getMessage()]
        assert [vars(line)["request_id"] for line in lines] == ["mine"]
        assert "private" not in caplog.text


def test_a_note_crosses_the_link() -> None:
    note = Noted("row.failed", "t1", {"reason": "why"})
    assert FROM_WORKER.decode(FROM_WORKER.encode(note)) == note
