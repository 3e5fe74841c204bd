"""Fetching one model as a program, so that it can be stopped wherever it is.

`python -m headrace.actors.library.fetching SOURCE HOME`, with a standard input that stays open. It
writes lines of JSON: what it does and how far it is, and at last the model, or why there is none.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from headrace.actors.library import library_at
from headrace.runtime.errors import RequestError
from headrace.runtime.worker_side import end_when_told, leave_with_parent


class Line(msgspec.Struct, omit_defaults=True):
    """One line. `fraction` is from 0 to 1; `bytes` are there of `total`."""

    doing: str | None = None
    fraction: float | None = None
    bytes: int | None = None
    total: int | None = None
    # The last line has these, or an error.
    model: str | None = None
    path: str | None = None
    fetched: bool = False
    error: str | None = None


def say(**fields: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(Line(**fields)) + b"\n")
    sys.stdout.buffer.flush()


def main(source: str, home: str) -> int:
    library = library_at(Path(home), os.environ)
    fetched = False

    def report(doing: str, fraction: float | None) -> None:
        nonlocal fetched
        fetched = True
        say(doing=doing, fraction=fraction)

    try:
        found = library.resolve(source, report, lambda done, total: say(bytes=done, total=total))
    except RequestError as error:
        say(error=str(error))
        return 1
    say(model=found.id, path=str(found.path), bytes=found.size_bytes, fetched=fetched)
    return 0


if __name__ == "__main__":
    leave_with_parent()
    end_when_told()
    sys.exit(main(*sys.argv[1:]))
