"""A runtime with jobs in a folder, which its parent kills: `python killed_child.py FOLDER`.

It runs one job after the other and says a line at each that it has begun.
"""

from __future__ import annotations

import sys

import trio

from headrace.actors.provision import Provision
from headrace.actors.runtime import open_runtime
from headrace.runtime.settings import Settings
from headrace.runtime.testing import ScriptedLoader


async def main(folder: str) -> None:
    loader = ScriptedLoader()
    settings = Settings(jobs_folder=folder, test_jobs=True)
    provision = Provision((), loader, 0)
    async with open_runtime(settings, provision=provision) as runtime:
        while True:
            job = await runtime.jobs.submit("noop", {"steps": 50})
            sys.stdout.write(f"{job.id}\n")
            sys.stdout.flush()
            await runtime.jobs.wait(job.id)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
