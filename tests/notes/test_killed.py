"""Notes of processes that were killed, at each moment in which something goes to the disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headrace.actors.notes.note import parse

CHILD = Path(__file__).with_name("killed_child.py")
NOTES = ["a.md", "b.md", "c.md"]


def test_a_killed_writer_leaves_whole_files_and_the_next_run_completes_them(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(CHILD), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    left = [line.split()[1:] for line in ran.stdout.splitlines()]
    # One was killed with nothing there, one with all of it, and one in the midst of a file.
    assert [] in left
    assert NOTES in left
    assert any(name.endswith(".part") for names in left for name in names)

    folders = sorted(tmp_path.iterdir())
    assert len(folders) == len(left) + 1
    written = [{path.name: path.read_bytes() for path in (f / "notes").iterdir()} for f in folders]
    assert sorted(written[0]) == NOTES
    assert all(files == written[0] for files in written)
    for name, data in written[0].items():
        assert parse(name.removesuffix(".md"), data.decode()) is not None
