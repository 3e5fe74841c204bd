"""Whether spans are made: the one place that decides to import OpenTelemetry."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from headrace.actors.runtime import Runtime
from headrace.runtime.errors import SettingError
from headrace.runtime.settings import Settings

if TYPE_CHECKING:
    from headrace.http.spans import Spans

NEEDED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def check_telemetry(settings: Settings) -> None:
    """Raises `SettingError` where spans are wanted and cannot be made."""
    if settings.otel and not all(map(_is_there, NEEDED)):
        raise SettingError("otel: OpenTelemetry is not installed; the extra headrace[otel] has it")


@asynccontextmanager
async def spans_of(runtime: Runtime) -> AsyncIterator[Spans | None]:
    """What makes the spans of a runtime's requests; None unless they are wanted.

    Raises `SettingError`.
    """
    check_telemetry(runtime.settings)
    if not runtime.settings.otel:
        await trio.lowlevel.checkpoint()
        yield None
        return
    from headrace.http.spans import exported

    async with exported(runtime.trace) as spans:
        yield spans


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
