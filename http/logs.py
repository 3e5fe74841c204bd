"""Logging of the command line: one line an event, with the request's id where there is one.

The library itself only names loggers; a program that embeds it keeps its own logging.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TextIO

import structlog

from headrace.actors.runtime import Runtime
from headrace.http.heads import Refusal
from headrace.runtime.trace import TraceEvent

if TYPE_CHECKING:
    from headrace.http.exchange import Exchange

lifecycle = logging.getLogger("headrace.http.models")
access = logging.getLogger("headrace.http.access")

MOST_PATH = 200

# Events of the trace that an operator wants to see, and how urgent they are: of models,
LIFECYCLE = {
    "model.loading": logging.INFO,
    "model.loaded": logging.INFO,
    "model.load_failed": logging.ERROR,
    "model.crashed": logging.ERROR,
    "model.evicted": logging.INFO,
    "worker.started": logging.INFO,
    "worker.silent": logging.WARNING,
    "worker.died": logging.ERROR,
    "job.ended": logging.INFO,
    "job.crashed": logging.ERROR,
    "jobs.failed": logging.ERROR,
    "model.not_warmed": logging.WARNING,
    "cache.trouble": logging.WARNING,
}
# and of requests, where something failed that their clients are not told of.
TROUBLES = {
    "row.failed": logging.WARNING,
    "seat.overran": logging.WARNING,
    "model.build_failed": logging.ERROR,
    "request.crashed": logging.ERROR,
}


def configure(level: str, *, as_json: bool) -> None:
    """Send what headrace and the server below it log to standard error."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(),
    ]
    renderer: structlog.typing.Processor
    if as_json:
        shared.append(structlog.processors.ExceptionRenderer(where_from))
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            exception_formatter=lambda out, error: _write(out, where_from(error)),
        )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            foreign_pre_chain=shared,
        )
    )
    for name in ("headrace", "hypercorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level.upper())
        logger.propagate = False


def _write(out: TextIO, text: str) -> None:
    out.write(text)


def where_from(exc_info: structlog.typing.ExcInfo) -> str:
    """Where an exception came from and what it is, as a traceback without any message.

    A message may hold what a client sent, and so may the variables.
    """
    return "".join(_frames(traceback.TracebackException(*exc_info)))


def _frames(error: traceback.TracebackException) -> Iterator[str]:
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        yield from _frames(before)
        yield "then:\n"
    yield from error.stack.format()
    yield f"{error.exc_type.__module__}.{error.exc_type.__qualname__}\n"
    for part in error.exceptions or ():
        yield from _frames(part)


def log_lifecycle(runtime: Runtime) -> None:
    """Log what becomes of models, and of requests that fail inside, while the runtime lives."""
    # Of live requests, by ticket: a model knows them by that.
    ids: dict[str, str] = {}

    def on_event(event: TraceEvent) -> None:
        match event.name:
            case "request.accepted":
                ids[event.ticket] = event.fields["id"]
            case "request.ended":
                ids.pop(event.ticket, None)
            case "model.loaded":
                _log_event(LIFECYCLE, event)
                _log_engine(runtime, event.fields["model"])
            case name if name in LIFECYCLE:
                _log_event(LIFECYCLE, event)
            case name if name in TROUBLES:
                _log_event(TROUBLES, event, request_id=ids.get(event.ticket, event.ticket))

    runtime.trace.listen(on_event)


def _log_event(levels: Mapping[str, int], event: TraceEvent, **extra: str) -> None:
    fields = ", ".join(f"{key} {_shown(value)}" for key, value in event.fields.items())
    lifecycle.log(levels[event.name], "%s: %s", event.name, fields, extra=extra)


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _log_engine(runtime: Runtime, model_id: str) -> None:
    infos = [model.info for model in runtime.statistics().models if model.id == model_id]
    for info in infos:
        if info is not None and info.blas:
            lifecycle.info("%s multiplies with %s", model_id, info.blas)


def log_exchange(exchange: Exchange) -> None:
    """One line for each answer. A client that left is no error."""
    level = logging.WARNING if exchange.outcome == "error" else logging.INFO
    access.log(
        level,
        "%s %s %s in %.0f ms",
        exchange.method,
        on_one_line(exchange.path),
        exchange.status,
        exchange.seconds * 1000,
        extra={"client": exchange.client, "outcome": exchange.outcome},
    )


def log_refusal(refusal: Refusal) -> None:
    """One line for what never became a request."""
    access.info(
        "refused %s: %s",
        refusal.status,
        refusal.info.message,
        extra={"request_id": refusal.id, "outcome": "refused"},
    )


def on_one_line(path: str) -> str:
    """A path as far as a log shows it; what a client sends must not look like lines of ours."""
    return "".join(c if c.isprintable() else "\ufffd" for c in path[:MOST_PATH])
