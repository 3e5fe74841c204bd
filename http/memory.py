"""The route that has a conversation kept as notes (design/notes.md)."""

from __future__ import annotations

from quart import Response

from headrace.actors.jobs.synthesize import Synthesize
from headrace.http import jobs
from headrace.http.exchange import Exchange
from headrace.runtime.errors import RequestError


async def synthesize(exchange: Exchange) -> Response:
    """Queues a job whose config is the body, and answers with its row."""
    body = await exchange.json_body()
    try:
        job = await exchange.edge.runtime.jobs.submit(Synthesize.name, body)
    except RequestError as error:
        raise _about_body(error) from None
    return exchange.json({"ok": True, "job": jobs.row(job)}, 202)


def _about_body(error: RequestError) -> RequestError:
    """The same failure for a client that sent the config itself."""
    info = error.info
    if info.param != "config":
        return error
    message = info.message.replace("`config.", "`").replace("`config`", "the body")
    return RequestError(info.code, message)
