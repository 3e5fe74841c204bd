"""How figures look on a terminal and in a pipe. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

UNITS = ("B", "kB", "MB", "GB", "TB")
# All that a terminal obeys, except a new line and a tab.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def columns(rows: Iterable[Sequence[str]]) -> str:
    """Rows of cells as aligned text; nothing is cut, so that it can be searched and piped."""
    rows = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


def size(count_bytes: float | None) -> str:
    """Bytes to three digits, in steps of 1000."""
    if count_bytes is None:
        return "-"
    step = 0
    while count_bytes >= 999.5 and step < len(UNITS) - 1:
        count_bytes /= 1000
        step += 1
    return f"{count_bytes:.3g} {UNITS[step]}"


def duration(seconds: float | None) -> str:
    """Milliseconds under a second."""
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def harmless(text: str) -> str:
    """Without what would move the cursor, colour the screen or ring: a model's text is shown,
    not obeyed."""
    return _CONTROLS.sub("", text)
