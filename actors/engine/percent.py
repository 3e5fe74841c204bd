"""A conversion as a program: percents on its output, the reason of a failure on its last line."""

from __future__ import annotations

import sys
from collections.abc import Callable

from headrace.runtime.errors import RequestError


def run_in_percents(convert: Callable[[Callable[[float], None]], None]) -> int:
    """Convert, with one line for each percent; the exit code. `convert` is given what to tell its
    progress to, from 0 to 1."""
    shown = -1

    def show(fraction: float) -> None:
        nonlocal shown
        if (percent := int(fraction * 100)) != shown:
            shown = percent
            sys.stdout.write(f"{percent}\n")
            sys.stdout.flush()

    try:
        convert(show)
    except (RequestError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0
