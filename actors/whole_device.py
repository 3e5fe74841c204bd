"""Work that wants the device for itself, beside no row of any model. Pure: wishes in, leave out.

From the first wish on no row begins, so that those who run come to an end; one holds the device at
a time, in order.
"""

from __future__ import annotations

from collections.abc import Hashable


class WholeDevice:
    def __init__(self) -> None:
        # In order of arrival; the first holds the device, or is the next to.
        self._wanted: list[Hashable] = []
        self._held = False

    @property
    def wanted(self) -> bool:
        """Whether rows have to wait."""
        return bool(self._wanted)

    def all(self) -> tuple[Hashable, ...]:
        return tuple(self._wanted)

    def want(self, who: Hashable) -> None:
        self._wanted.append(who)

    def leave(self, who: Hashable) -> None:
        """Whether it holds the device, still waits, or never came."""
        if who in self._wanted:
            self._held = self._held and self._wanted[0] != who
            self._wanted.remove(who)

    def grant(self, running: int) -> Hashable | None:
        """Who holds the device from now on, if it is somebody's turn while so many rows run."""
        if not self._wanted or self._held or running:
            return None
        self._held = True
        return self._wanted[0]

    def __repr__(self) -> str:
        return f"<WholeDevice {'held' if self._held else 'free'}, {len(self._wanted)} want it>"
