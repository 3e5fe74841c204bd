"""Fetching one model as a program, so that it can be stopped wherever it is.

`python -m headrace.actors.library.fetching SOURCE HOME`, with a standard input that stays open.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from headrace.actors.library import ModelFolder, library_at
from headrace.actors.library.program import tell_model
from headrace.runtime.told import tell
from headrace.runtime.worker_side import end_when_told, leave_with_parent


def main(source: str, home: str) -> int:
    library = library_at(Path(home), os.environ)
    made = False

    def report(doing: str, fraction: float | None) -> None:
        nonlocal made
        made = True
        tell(doing=doing, fraction=fraction)

    def fetch() -> tuple[ModelFolder, bool]:
        found = library.resolve(source, report, lambda done, total: tell(bytes=done, total=total))
        return found, made

    return tell_model(fetch)


if __name__ == "__main__":
    leave_with_parent()
    end_when_told()
    sys.exit(main(*sys.argv[1:]))
