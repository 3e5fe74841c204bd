"""Logging of the command line: one line an event, with the request's id where there is one.

The library itself only names loggers; a program that embeds it keeps its own logging.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import structlog

from headrace.actors.runtime import Runtime
from headrace.runtime.trace import TraceEvent

if TYPE_CHECKING:
    from headrace.http.exchange import Exchange

lifecycle = logging.getLogger("headrace.http.models")
access = logging.getLogger("headrace.http.access")


# Events of the trace that an operator wants to see, and how urgent they are.
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
    "cache.trouble": logging.WARNING,
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
        shared.append(structlog.processors.format_exc_info)
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            # The default shows the variables too, and with them what clients sent.
            exception_formatter=structlog.dev.plain_traceback,
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


def log_lifecycle(runtime: Runtime) -> None:
    """Log what becomes of models, for as long as the runtime lives."""

    def on_event(event: TraceEvent) -> None:
        if event.name not in LIFECYCLE:
            return
        fields = ", ".join(f"{key} {_shown(value)}" for key, value in event.fields.items())
        lifecycle.log(LIFECYCLE[event.name], "%s: %s", event.name, fields)
        if event.name == "model.loaded":
            _log_engine(runtime, event.fields["model"])

    runtime.trace.listen(on_event)


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
        exchange.path[:200],
        exchange.status,
        exchange.seconds * 1000,
        extra={"client": exchange.client, "outcome": exchange.outcome},
    )
