"""What the programs that bring a model to this machine tell their parent at the end."""

from __future__ import annotations

from collections.abc import Callable

from headrace.actors.library.folder import ModelFolder
from headrace.runtime.errors import RequestError
from headrace.runtime.told import tell


def tell_model(bring: Callable[[], tuple[ModelFolder, bool]]) -> int:
    """Bring a model and tell of it, or why that failed; the exit code. `bring` answers its folder
    and whether that was made now."""
    try:
        found, made = bring()
    except RequestError as error:
        tell(error=str(error))
        return 1
    tell(model=found.id, path=str(found.path), bytes=found.size_bytes, made=made)
    return 0
