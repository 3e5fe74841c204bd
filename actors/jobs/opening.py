"""The jobs of a runtime, as its settings want them."""

from __future__ import annotations

from pathlib import Path

import outcome
import trio

from headrace.actors.database import StoreInUse
from headrace.actors.jobs.actor import Jobs
from headrace.actors.jobs.convert import Convert
from headrace.actors.jobs.pull import Pull
from headrace.actors.jobs.stamps import Stamps
from headrace.actors.jobs.store import JobStore
from headrace.actors.jobs.synthesize import Synthesize
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
    store = await _opened(settings, threads, stamps.now())
    limit = settings.job_queue_limit
    jobs = Jobs(store, threads, trace, queue_limit=limit, stamps=stamps)
    jobs.register(Pull(settings.home))
    jobs.register(Convert(settings.home))
    jobs.register(Synthesize(settings, threads))
    if settings.test_jobs:
        jobs.register(Noop())
        jobs.register(Crash())
    return jobs


async def _opened(settings: Settings, threads: ThreadFactory, now: int) -> JobStore:
    if settings.jobs_folder is None:
        await trio.lowlevel.checkpoint()
        return _open(settings, now)
    async with threads("opening of jobs") as thread:
        # An error would leave the thread's own scope as one of a group.
        opened = await thread.run(outcome.capture, _open, settings, now)
    return opened.unwrap()


def _open(settings: Settings, now: int) -> JobStore:
    folder = settings.jobs_folder
    place = None if folder is None else Path(folder).expanduser()
    try:
        return JobStore(place, now, files_bytes=settings.files_store_bytes)
    except StoreInUse:
        raise SettingError(f"jobs_folder: {folder} is in use by another server") from None
    except OSError as error:
        raise SettingError(f"jobs_folder: {folder}: {error.strerror}") from None
