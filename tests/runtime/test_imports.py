"""What a process of ours imports is not looked at again for garbage."""

from __future__ import annotations

import subprocess
import sys

STORY = """
import gc
from headrace.runtime.imports import kept_for_good

assert gc.get_freeze_count() == 0
try:
    with kept_for_good():
        assert not gc.isenabled()
        made = [[number] for number in range(1000)]
        {ending}
except ZeroDivisionError:
    pass
assert gc.isenabled()
assert gc.get_freeze_count() > 1000
"""


def told(ending: str) -> str:
    """In a process of its own, since what is kept is kept to the end."""
    argv = [sys.executable, "-c", STORY.format(ending=ending)]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stderr


def test_what_is_made_within_is_kept() -> None:
    assert told("pass") == ""


def test_an_import_that_fails_leaves_collections_on() -> None:
    assert told("1 / 0") == ""
