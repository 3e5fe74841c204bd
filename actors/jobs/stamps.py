"""The clock and the chance that jobs may use: rows have times of day, and ids of their own."""

from __future__ import annotations

import secrets
import time


class Stamps:
    """Tests put in their own."""

    def now(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def token(self, digits: int) -> str:
        """So many hex digits, an even number of them."""
        return secrets.token_hex(digits // 2)
