"""Exceptions in one line, for logs and the trace; never shown to a client."""

from __future__ import annotations

import os
import traceback


def located(error: BaseException) -> str:
    """What an error is and where it came from, without its words: those of an error on a request's
    way may repeat what its client sent."""
    name = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return name
    return f"{name} at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}"


def described(error: BaseException) -> str:
    """What it is, in its own words."""
    return f"{type(error).__name__}: {error}".splitlines()[0]
