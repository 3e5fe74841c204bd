"""The handlers of the Batches routes, in the official shapes: each batch is a job."""

from __future__ import annotations

from typing import Any

from quart import Response

from headrace.actors.jobs import Job
from headrace.http.exchange import Exchange
from headrace.http.files import find, page
from headrace.http.wire.fields import wrong_value
from headrace.runtime.errors import Code, RequestError

KIND, PREFIX, JOBS_PREFIX = "batch", "batch_", "job_"
MOST_LISTED, USUALLY_LISTED = 100, 20
# A zombie is told as what it is for its client.
STATUSES = {
    "queued": "validating",
    "running": "in_progress",
    "done": "completed",
    "failed": "failed",
    "zombie": "failed",
    "cancelled": "cancelled",
}


async def create(exchange: Exchange) -> Response:
    body = await exchange.json_body()
    config = {name: value for name, value in body.items() if value is not None}
    name = config.get("input_file_id")
    if isinstance(name, str):
        await find(exchange, name, "input_file_id")
    try:
        job = await exchange.edge.runtime.jobs.submit(KIND, config)
    except RequestError as error:
        raise _in_the_body(error) from None
    return _told(exchange, job)


def _in_the_body(error: RequestError) -> RequestError:
    """What is wrong with the config is wrong with the body here."""
    info = error.info
    if info.param != "config":
        return error
    message = info.message.replace("`config.", "`").replace(" - at `config`", "")
    return RequestError(info.code, message)


async def listing(exchange: Exchange) -> Response:
    limit = exchange.query_integer("limit", default=USUALLY_LISTED)
    if not 1 <= limit <= MOST_LISTED:
        raise wrong_value("limit", f"must be between 1 and {MOST_LISTED}")
    after = exchange.query_text("after")
    before = None if after is None else (await _job(exchange, after)).id
    jobs = await exchange.edge.runtime.jobs.newest(limit + 1, KIND, before)
    return exchange.json(page([_batch(exchange, job) for job in jobs], limit))


async def show(exchange: Exchange, name: str) -> Response:
    return _told(exchange, await _job(exchange, name))


async def cancel(exchange: Exchange, name: str) -> Response:
    job = await _job(exchange, name)
    return _told(exchange, await exchange.edge.runtime.jobs.cancel(job.id) or job)


async def _job(exchange: Exchange, name: str) -> Job:
    """Raises `RequestError` (not_found)."""
    found = None
    if name.startswith(PREFIX):
        job = JOBS_PREFIX + name.removeprefix(PREFIX)
        found = await exchange.edge.runtime.jobs.get(job)
    if found is None or found.kind != KIND:
        raise RequestError(Code.NOT_FOUND, "No batch has this id.", param="id")
    return found


def _told(exchange: Exchange, job: Job) -> Response:
    return exchange.json(_batch(exchange, job))


def _batch(exchange: Exchange, job: Job) -> dict[str, Any]:
    """The official object. Its counts are those of this server's time, or of a whole batch."""
    config, summary = job.config, job.summary or {}
    counts = summary.get("counts") or exchange.edge.batches.counted(job.id)
    ended = None if job.ended_at is None else job.ended_at // 1000
    status = STATUSES[job.status]
    return {
        "id": PREFIX + job.id.removeprefix(JOBS_PREFIX),
        "object": "batch",
        "endpoint": config["endpoint"],
        "errors": _errors(job),
        "input_file_id": config["input_file_id"],
        "completion_window": config.get("completion_window", "24h"),
        "status": status,
        "output_file_id": summary.get("output_file_id"),
        "error_file_id": summary.get("error_file_id"),
        "created_at": job.created_at // 1000,
        "in_progress_at": None if job.started_at is None else job.started_at // 1000,
        "expires_at": None,
        "finalizing_at": None,
        "completed_at": ended if status == "completed" else None,
        "failed_at": ended if status == "failed" else None,
        "expired_at": None,
        "cancelling_at": None,
        "cancelled_at": ended if status == "cancelled" else None,
        "request_counts": counts,
        "metadata": config.get("metadata"),
    }


def _errors(job: Job) -> dict[str, Any] | None:
    if STATUSES[job.status] != "failed":
        return None
    plain = {"code": "failed", "message": job.error, "line": None, "param": None}
    found = (job.summary or {}).get("errors") or [plain]
    return {"object": "list", "data": found}
