"""The handlers of the Responses routes."""

from __future__ import annotations

import attrs
from quart import Response

from headrace.http.exchange import Exchange
from headrace.http.following import Followed, Following
from headrace.http.generate import about
from headrace.http.kept import Underway, body_of
from headrace.http.responses_run import BackgroundRun, advised, fitted, foresee
from headrace.http.several import open_work
from headrace.http.sse import HEADERS, stream_answer
from headrace.http.wire import openai_responses
from headrace.http.wire.answer import warnings_of
from headrace.http.wire.fields import as_choice, wrong_value
from headrace.http.wire.frames import CONTENT_TYPE
from headrace.http.wire.openai_responses import AskedResponse
from headrace.http.wire.warned import warning_header
from headrace.runtime.contracts import Failed
from headrace.runtime.errors import Code, RequestError

MOST_LISTED, USUALLY_LISTED = 100, 20
ORDERS = ("asc", "desc")


async def create(exchange: Exchange) -> Response:
    asked = await _asked(exchange)
    try:
        if asked.truncates:
            asked = await fitted(exchange.edge.runtime, asked)
        if asked.background:
            return await _in_background(exchange, asked)
        answer = _stream if asked.request.stream else _whole
        return await answer(exchange, asked)
    except RequestError as error:
        raise about(asked, error.info) from None


async def _asked(exchange: Exchange) -> AskedResponse:
    """The request, with what of earlier responses it refers to."""
    body = await exchange.json_body()
    edge = exchange.edge
    known = await edge.kept.known(openai_responses.wanted(body))
    defaults = advised(edge.runtime, body.get("model"))
    known = attrs.evolve(known, defaults=defaults)
    return openai_responses.parse(body, exchange.stamp(), known)


async def _stream(exchange: Exchange, asked: AskedResponse) -> Response:
    kept, writer = exchange.edge.kept, asked.stream()
    underway = kept.begin(Underway(asked, writer, exchange))
    exchange.scopes.callback(kept.leave, underway)

    async def settle() -> None:
        await kept.keep(underway)

    try:
        return await stream_answer(exchange, asked, writer=writer, settle=settle)
    except RequestError as refused:
        error = refused
    await _never_begun(exchange, underway, error)
    raise error


async def _whole(exchange: Exchange, asked: AskedResponse) -> Response:
    kept, writer = exchange.edge.kept, asked.stream()
    underway = kept.begin(Underway(asked, writer, exchange))
    exchange.scopes.callback(kept.leave, underway)
    async with open_work(exchange.edge.runtime, asked.requests) as work:
        exchange.work, exchange.response_id = work, asked.response_id
        events = await work.receive_all()
    if isinstance(events[-1], Failed):
        error = RequestError.of(events[-1].error)
        await _never_begun(exchange, underway, error)
        raise error
    for event in events:
        writer.feed(event)
    await kept.keep(underway)
    response = exchange.json(writer.response)
    if warnings := warnings_of(events):
        response.headers["Warning"] = warning_header(warnings)
    return response


async def _never_begun(exchange: Exchange, underway: Underway, error: RequestError) -> None:
    """The client learns of no response. One that was cancelled is there for who cancelled it."""
    if error.code is Code.REQUEST_CANCELLED:
        underway.writer.feed(Failed(error.info))
        await exchange.edge.kept.keep(underway)
    else:
        exchange.edge.kept.forget(underway)


async def _in_background(exchange: Exchange, asked: AskedResponse) -> Response:
    """Start a run that nobody needs to wait for, and answer at once or with its stream."""
    edge = exchange.edge
    await foresee(edge.runtime, asked)
    run = BackgroundRun(edge.runtime, edge.kept, asked)
    await run.start()
    exchange.response_id = asked.response_id
    if asked.request.stream:
        return _follow(exchange, run.followed, 0)
    return exchange.json(run.underway.writer.response)


def _follow(exchange: Exchange, followed: Followed, begin: int) -> Response:
    body = Following(followed, begin, exchange.edge.runtime.settings.keepalive_s)
    return Response(body, content_type=CONTENT_TYPE, headers=HEADERS)


async def count_input(exchange: Exchange) -> Response:
    asked = await _asked(exchange)
    try:
        counted = await exchange.edge.runtime.count(asked.request)
    except RequestError as error:
        raise about(asked, error.info) from None
    body = {"object": "response.input_tokens", "input_tokens": counted.prompt_tokens}
    return exchange.json(body)


async def retrieve(exchange: Exchange, name: str) -> Response:
    """The response as it is now, or the stream of one that runs in the background."""
    wants_stream = as_choice(exchange.query_text("stream") or "false", "stream", ["true", "false"])
    if wants_stream == "true":
        begin = 0
        if exchange.query_text("starting_after") is not None:
            begin = exchange.query_integer("starting_after", default=0) + 1
        return _follow(exchange, await _followed(exchange, name), begin)
    return exchange.json(await exchange.edge.kept.response(name))


async def _followed(exchange: Exchange, name: str) -> Followed:
    kept = exchange.edge.kept
    underway = kept.underway(name)
    if underway is not None:
        followed = underway.followed
    else:
        stored = await kept.stored(name)
        followed = Followed.of(stored.frames) if body_of(stored)["background"] else None
    if followed is None:
        text = "Only a response that runs in the background can be streamed again."
        raise RequestError(Code.NOT_STREAMABLE, text, param="stream")
    return followed


async def cancel(exchange: Exchange, name: str) -> Response:
    return exchange.json(await exchange.edge.kept.cancel(name))


async def delete(exchange: Exchange, name: str) -> Response:
    await exchange.edge.kept.delete(name)
    return exchange.json({"id": name, "object": "response", "deleted": True})


async def input_items(exchange: Exchange, name: str) -> Response:
    items = await exchange.edge.kept.input(name)
    limit = exchange.query_integer("limit", default=USUALLY_LISTED)
    if not 1 <= limit <= MOST_LISTED:
        raise wrong_value("limit", f"must be between 1 and {MOST_LISTED}")
    if as_choice(exchange.query_text("order") or "desc", "order", ORDERS) == "desc":
        items.reverse()
    ids = [item["id"] for item in items]
    after = exchange.query_text("after")
    if after is not None and after not in ids:
        raise wrong_value("after", "must be the id of an item in the list")
    rest = items if after is None else items[ids.index(after) + 1 :]
    shown = rest[:limit]
    return exchange.json(
        {
            "object": "list",
            "data": shown,
            "first_id": shown[0]["id"] if shown else None,
            "last_id": shown[-1]["id"] if shown else None,
            "has_more": len(rest) > len(shown),
        }
    )


def compact(exchange: Exchange) -> Response:
    raise RequestError(Code.NOT_IMPLEMENTED, "Conversations are not compacted here.")
