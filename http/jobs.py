"""The handlers of the job routes (wire contract 12)."""

from __future__ import annotations

from typing import Any

import msgspec
from quart import Response

from headrace.actors.jobs import Job
from headrace.actors.jobs.place import LOG
from headrace.http.exchange import Exchange
from headrace.http.job_stream import JobStream
from headrace.http.sse import HEADERS
from headrace.http.wire.fields import wrong_value
from headrace.http.wire.frames import CONTENT_TYPE
from headrace.runtime.errors import Code, RequestError

MOST_LISTED, USUALLY_LISTED = 200, 50
# Of one field of a config.
MOST_LISTED_BYTES = 2000
FIELDS = ("kind", "config")


async def submit(exchange: Exchange) -> Response:
    body = await exchange.json_body()
    kind, config = body.get("kind"), body.get("config")
    for name in body:
        if name not in FIELDS:
            raise wrong_value(name, "is not a field of a job")
    if not isinstance(kind, str):
        raise wrong_value("kind", "must be the name of a kind of job")
    if not (config is None or isinstance(config, dict)):
        raise wrong_value("config", "must be an object")
    job = await exchange.edge.runtime.jobs.submit(kind, config)
    return exchange.json(_told(job), 201)


async def listing(exchange: Exchange) -> Response:
    limit = exchange.query_integer("limit", default=USUALLY_LISTED)
    if not 1 <= limit <= MOST_LISTED:
        raise wrong_value("limit", f"must be between 1 and {MOST_LISTED}")
    jobs = await exchange.edge.runtime.jobs.newest(limit, exchange.query_text("kind"))
    return exchange.json({"ok": True, "jobs": [_brief(job) for job in jobs]})


async def show(exchange: Exchange, name: str) -> Response:
    return exchange.json(_told(await exchange.edge.runtime.jobs.get(name)))


async def cancel(exchange: Exchange, name: str) -> Response:
    return exchange.json(_told(await exchange.edge.runtime.jobs.cancel(name)))


async def stream(exchange: Exchange, name: str) -> Response:
    """Its log from the beginning, or from behind the event that a client has seen last."""
    runtime = exchange.edge.runtime
    seen = exchange.header("last-event-id") or ""
    begin = int(seen) if seen.isascii() and seen.isdecimal() and len(seen) < 10 else 0
    known = await runtime.jobs.get(name) is not None
    body = JobStream(runtime.jobs, name if known else None, begin, runtime.settings.keepalive_s)
    return Response(body, content_type=CONTENT_TYPE, headers=HEADERS)


def _told(job: Job | None) -> dict[str, Any]:
    if job is None:
        raise RequestError(Code.NOT_FOUND, "job not found")
    return {"ok": True, "job": row(job)}


def _brief(job: Job) -> dict[str, Any]:
    """As in a list, where texts to be worked on have no place."""
    config = {
        name: value
        for name, value in job.config.items()
        if len(msgspec.json.encode(value)) <= MOST_LISTED_BYTES
    }
    return row(job) | {"config": config}


def row(job: Job) -> dict[str, Any]:
    """Paths are relative to the folder of all jobs; times are in milliseconds since the epoch."""
    return {
        "id": job.id,
        "kind": job.kind,
        "status": job.status,
        "config": job.config,
        "progress": job.progress,
        "message": job.message,
        "log_path": None if job.started_at is None else f"{job.id}/{LOG}",
        "output_path": None if job.output is None else f"{job.id}/{job.output}",
        "summary": job.summary,
        "error": job.error,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
    }
