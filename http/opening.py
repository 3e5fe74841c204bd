"""A runtime from the environment alone, for servers that know no more than the app's name."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

from headrace.actors.runtime import Runtime, open_runtime
from headrace.runtime.config import config_file, resolve
from headrace.runtime.errors import SettingError
from headrace.runtime.settings import Settings


def settings_of_environment() -> Settings:
    """Raises `SettingError`, which names the setting and where it was set."""
    settings = resolve(file=config_file(None, os.environ), environ=os.environ).settings
    if settings.tls_certificate or settings.tls_key:
        # It would be passed over, and the connections would be open.
        raise SettingError("tls_certificate: this server has options of its own for TLS; use those")
    return settings


def for_a_server(settings: Settings) -> Settings:
    """A server runs each model in a worker process, and keeps responses and jobs where the next
    server at its address finds them again, unless it was told otherwise."""
    file, folder = settings.responses_file, settings.jobs_folder
    if settings.port:
        host = "".join(c if c.isalnum() else "-" for c in settings.host)
        name = f"{host}-{settings.port}"
        file = file or str(settings.home / "responses" / f"{name}.sqlite3")
        folder = folder or str(settings.home / "jobs" / name)
    in_process = bool(settings.in_process)
    return attrs.evolve(settings, in_process=in_process, responses_file=file, jobs_folder=folder)


@asynccontextmanager
async def open_from_environment() -> AsyncIterator[Runtime]:
    async with open_runtime(for_a_server(settings_of_environment())) as runtime:
        yield runtime
