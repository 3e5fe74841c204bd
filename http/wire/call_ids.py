"""Ids of tool calls: fresh with each request, and the same however its answer is rendered."""

from __future__ import annotations

import hashlib

import attrs

HEX_DIGITS = 24


@attrs.frozen
class CallIds:
    """`token` is the chance that the edge has drawn for the request."""

    token: str
    prefix: str = "call_"

    def of(self, choice: int, call: int) -> str:
        digest = hashlib.sha256(f"{self.token}/{choice}/{call}".encode())
        return self.prefix + digest.hexdigest()[:HEX_DIGITS]
