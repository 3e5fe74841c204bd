"""The handlers of the routes that read a model: embeddings and decisions."""

from __future__ import annotations

from quart import Response

from headrace.http.exchange import Exchange
from headrace.http.generate import about
from headrace.http.multipart import Form, is_form, read_form
from headrace.http.sse import whole_answer
from headrace.http.wire import decisions as openai_decisions
from headrace.http.wire import openai_embeddings, systemone
from headrace.http.wire.asking import Answerable
from headrace.http.wire.decided import DecisionRules
from headrace.http.wire.fields import wrong_value
from headrace.runtime.errors import RequestError


async def embeddings(exchange: Exchange) -> Response:
    kind = exchange.edge.runtime.settings.embedding_pooling
    pooling = None if kind == "none" else kind
    body = await exchange.json_body()
    return await _read(exchange, openai_embeddings.parse(body, exchange.stamp(), pooling))


async def system_one(exchange: Exchange) -> Response:
    return await _jev(exchange, await _form(exchange))


async def decisions(exchange: Exchange) -> Response:
    """The type of `questions` tells the two shapes apart, and how errors are answered."""
    form = await _form(exchange)
    match form.request.get("questions"):
        case dict():
            return await _jev(exchange, form)
        case list():
            if form.files:
                raise wrong_value(min(form.files), "is a file that nobody claims")
            asked = openai_decisions.parse(form.request, exchange.stamp(), _rules(exchange))
            return await _read(exchange, asked)
        case _:
            raise wrong_value("questions", "must be an object or an array of questions")


async def _jev(exchange: Exchange, form: Form) -> Response:
    exchange.family = "jev"
    asked = systemone.parse(form.request, exchange.stamp(), _rules(exchange), tuple(form.files))
    return await _read(exchange, asked)


async def _form(exchange: Exchange) -> Form:
    """The request with its files; one that comes as plain JSON has none."""
    content_type = exchange.header("content-type")
    if not is_form(content_type):
        return Form(await exchange.json_body())
    return read_form(await exchange.upload(), content_type)


def _rules(exchange: Exchange) -> DecisionRules:
    settings = exchange.edge.runtime.settings
    temperature = {str(kind): value for kind, value in settings.decision_temperature.items()}
    return DecisionRules(settings.decision_max_questions, temperature)


async def _read(exchange: Exchange, asked: Answerable) -> Response:
    try:
        return await whole_answer(exchange, asked)
    except RequestError as error:
        raise about(asked, error.info) from None
