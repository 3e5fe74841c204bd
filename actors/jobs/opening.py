"""The jobs of a runtime, as its settings want them."""

from __future__ import annotations

from pathlib import Path

import trio

from headrace.actors.database import StoreInUse
from headrace.actors.jobs.actor import Jobs
from headrace.actors.jobs.stamps import Stamps
from headrace.actors.jobs.store import JobStore
from headrace.actors.jobs.trial import Crash, Noop
from headrace.runtime.errors import SettingError
from headrace.runtime.settings import Settings
from headrace.runtime.thread import ThreadFactory
from headrace.runtime.trace import Trace


async def open_jobs(
    settings: Settings, threads: ThreadFactory, trace: Trace, stamps: Stamps | None = None
) -> Jobs:
    """Raises `SettingError` where another process uses the folder."""
    stamps = stamps if stamps is not None else Stamps()
    jobs = Jobs(
        await open_store(settings.jobs_folder, stamps.now()),
        threads,
        trace,
        queue_limit=settings.job_queue_limit,
        stamps=stamps,
    )
    if settings.test_jobs:
        jobs.register(Noop())
        jobs.register(Crash())
    return jobs


async def open_store(folder: str | None, now: int) -> JobStore:
    if folder is None:
        await trio.lowlevel.checkpoint()
        return JobStore(None, now)
    try:
        return await trio.to_thread.run_sync(_store, folder, now)
    except StoreInUse:
        raise SettingError(f"jobs_folder: {folder} is in use by another server") from None
    except OSError as error:
        raise SettingError(f"jobs_folder: {folder}: {error.strerror}") from None


def _store(folder: str, now: int) -> JobStore:
    return JobStore(Path(folder).expanduser(), now)
