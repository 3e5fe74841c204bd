"""Where notes may be written: inside folders that the settings name, and nowhere else. Pure.

A path is judged by its words here. That none of its folders leads elsewhere is seen when it is
opened (`folder`), since links may be made at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath

import attrs

from headrace.runtime.errors import Code, RequestError

MOST_NAME_BYTES = 255


@attrs.frozen
class Spot:
    """A folder below a root; none of `parts` is a step upwards."""

    root: Path
    parts: tuple[str, ...]


@attrs.frozen
class Roots:
    """`own` is where relative paths begin; `others` may be named by absolute paths."""

    own: Path
    others: tuple[Path, ...] = ()

    def spot(self, folder: str) -> Spot:
        """Raises `RequestError` (invalid_value) for a folder that is not below a root."""
        path = PurePath(folder)
        if not folder.strip() or not all(map(_is_plain, path.parts[path.is_absolute() :])):
            raise _refused("must be a path without steps upwards and without special characters")
        if not path.is_absolute():
            return Spot(self.own, path.parts)
        for root in (self.own, *self.others):
            if path.is_relative_to(root):
                return Spot(root, path.relative_to(root).parts)
        raise _refused(f"must be inside {_names(self.others)}, or relative to the folder of notes")


def _is_plain(part: str) -> bool:
    return (
        part != ".."
        and not part.startswith("~")
        and part.isprintable()
        and len(part.encode(errors="replace")) <= MOST_NAME_BYTES
    )


def _names(others: Sequence[Path]) -> str:
    return "a folder of the setting memory_folders" if others else "the folder of notes"


def _refused(rule: str) -> RequestError:
    return RequestError(Code.INVALID_VALUE, f"folder {rule}.", param="folder")
