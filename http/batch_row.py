"""One line of a batch, answered as its route would answer it."""

from __future__ import annotations

import logging
from typing import Any

import attrs
import trio

from headrace.actors.runtime import Runtime
from headrace.http.generate import about
from headrace.http.kept import Kept
from headrace.http.responses_run import advised, fitted
from headrace.http.several import open_work
from headrace.http.wire import openai_chat, openai_completions, openai_embeddings, openai_responses
from headrace.http.wire.asking import Answerable, Stamp
from headrace.http.wire.batch_lines import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    Line,
    answer_line,
    drawn,
)
from headrace.http.wire.errors import envelope, internal_error, status_of
from headrace.http.wire.fields import unsupported
from headrace.runtime.errors import Code, ErrorInfo, RequestError

logger = logging.getLogger(__name__)

# Refusals that pass by themselves: a batch has the time to wait.
PATIENT = frozenset({Code.QUEUE_FULL, Code.QUEUE_TIMEOUT, Code.DRAINING})
# Failures of a worker, which may be tried again a few times.
SHAKEN = frozenset({Code.ENGINE_UNAVAILABLE, Code.MODEL_UNLOADED})
MOST_TRIES = 3
RETRY_SECONDS = 1.0
# What the route of a line is called in reports.
ROUTE = "batch "


@attrs.frozen
class Answer:
    """A line of the output file, or of the error file."""

    data: bytes
    failed: bool


class Row:
    """`file_id` names the file in which the line stands, `created` is when its batch was made, in
    Unix seconds."""

    def __init__(
        self, runtime: Runtime, kept: Kept, endpoint: str, file_id: str, created: int
    ) -> None:
        self._runtime = runtime
        self._kept = kept
        self._endpoint = endpoint
        self._file_id = file_id
        self._created = created

    async def answer(self, line: Line) -> Answer:
        """Never fails for a reason of the line's. Raises `RequestError` (closed)."""
        stamp = self._stamp(line)
        try:
            status, body = 200, await self._tried(line, stamp)
        except RequestError as error:
            if error.code is Code.CLOSED:
                raise
            status, body = self._failure(error.info, stamp)
        except Exception:
            logger.exception("a line of a batch failed")
            status, body = self._failure(internal_error(stamp.request_id), stamp)
        data = answer_line(stamp.request_id, line.custom_id, status, body)
        return Answer(data, status != 200)

    def _failure(self, info: ErrorInfo, stamp: Stamp) -> tuple[int, dict[str, Any]]:
        return status_of(info, "openai"), envelope(info, "openai", stamp.request_id)

    async def _tried(self, line: Line, stamp: Stamp) -> dict[str, Any]:
        tries = 0
        while True:
            try:
                return await self._run(line, stamp)
            except RequestError as error:
                tries += error.code not in PATIENT
                if error.code not in PATIENT | SHAKEN or tries == MOST_TRIES:
                    raise
                seconds = error.info.retry_after_seconds
            await trio.sleep(seconds or RETRY_SECONDS)

    async def _run(self, line: Line, stamp: Stamp) -> dict[str, Any]:
        asked = await self._asked(line, stamp)
        try:
            async with open_work(self._runtime, asked.requests, low=True) as work:
                return asked.complete(await work.receive_all())
        except RequestError as error:
            raise about(asked, error.info) from None

    async def _asked(self, line: Line, stamp: Stamp) -> Answerable:
        """What the line asks for. Raises `RequestError`."""
        body = line.body
        for name in ("stream", "background"):
            if body.get(name):
                raise unsupported(name)
        if self._endpoint == CHAT:
            return openai_chat.parse(body, stamp)
        if self._endpoint == COMPLETIONS:
            return openai_completions.parse(body, stamp)
        if self._endpoint == EMBEDDINGS:
            kind = self._runtime.settings.embedding_pooling
            return openai_embeddings.parse(body, stamp, None if kind == "none" else kind)
        return await self._response(body, stamp)

    async def _response(self, body: dict[str, Any], stamp: Stamp) -> Answerable:
        """Responses of batches are in its file and nowhere else."""
        known = await self._kept.known(openai_responses.wanted(body))
        defaults = advised(self._runtime, body.get("model"))
        known = attrs.evolve(known, defaults=defaults)
        asked = openai_responses.parse({**body, "store": False}, stamp, known)
        return await fitted(self._runtime, asked) if asked.truncates else asked

    def _stamp(self, line: Line) -> Stamp:
        chance = drawn(self._file_id, line.number)
        settings = self._runtime.settings
        return Stamp(
            f"batch_req_{chance[:12].hex()}",
            chance[:16].hex(),
            int.from_bytes(chance[16:24], "big"),
            self._created,
            ROUTE + self._endpoint,
            most_choices=min(settings.max_n, settings.max_rows),
        )
