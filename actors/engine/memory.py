"""Device memory: what is in use, what is given back, what is pinned."""

from __future__ import annotations

import mlx.core as mx

from headrace.runtime.ports import Memory


def usage() -> Memory:
    """The allocator's own count for this process."""
    return Memory(
        active_bytes=mx.get_active_memory(),
        cache_bytes=mx.get_cache_memory(),
        peak_bytes=mx.get_peak_memory(),
    )


def release_buffers(above_bytes: int = 0) -> None:
    """Give freed buffers that the allocator keeps for reuse back to the system, if they are many.

    On a CPU the allocator keeps little by itself, and giving that little back only costs page
    faults.
    """
    if mx.get_cache_memory() > above_bytes:
        mx.clear_cache()


def set_wired_limit(limit_bytes: int | None = None) -> int | None:
    """Let Metal keep this much memory resident (by default what the device recommends).

    The limit belongs to the process, so the owner of the process calls this, once; an engine
    never does. Returns the limit before, in bytes, or None where there is no Metal.
    """
    if not mx.metal.is_available():
        return None
    if limit_bytes is None:
        limit_bytes = int(mx.device_info()["max_recommended_working_set_size"])
    return int(mx.set_wired_limit(limit_bytes))
