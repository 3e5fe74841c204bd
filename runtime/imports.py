"""Imports of a process that will need all of them to its end."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_for_good() -> Iterator[None]:
    """For imports: nothing that is made within is ever garbage. Not looking for it makes a start
    a tenth faster, and no full collection, for which the process stands still, looks at it later.

    It holds for all objects that there are, so it is for processes of our own alone.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
