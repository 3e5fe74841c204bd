"""A process that is killed while its jobs write, and what the next one finds."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.actors.jobs.place import LOG
from headrace.actors.jobs.store import JobStore
from headrace.actors.jobs.trial import OUTPUT
from headrace.runtime.whole_file import UNFINISHED

CHILD = Path(__file__).with_name("killed_child.py")


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_server_leaves_whole_files_and_rows_that_tell(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    with subprocess.Popen(
        [sys.executable, str(CHILD), str(tmp_path)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        for _ in range(chance.randint(1, 3)):
            child.stdout.readline()
        time.sleep(chance.random() / 20)
        child.kill()
        told = child.stdout.read().split()
    store = JobStore(tmp_path, 1)
    jobs = store.newest(100)
    store.close()
    assert {name.decode() for name in told} <= {job.id for job in jobs}
    assert {job.status for job in jobs} <= {"done", "zombie"}
    # One ran at a time, so at most the last is not done; another may have been queued behind it.
    assert [job.status for job in jobs[2:]] == ["done"] * len(jobs[2:])
    assert not list(tmp_path.rglob(f"*{UNFINISHED}"))
    whole = "".join(f"{step}\n" for step in range(1, 51))
    for job in jobs:
        output = tmp_path / job.id / OUTPUT
        if job.status == "done" or output.exists():
            assert output.read_text() == whole
        log = tmp_path / job.id / LOG
        lines = log.read_bytes().splitlines() if log.exists() else []
        kinds = [json.loads(line)["type"] for line in lines]
        assert ("done" in kinds) <= (job.status in ("done", "zombie"))
