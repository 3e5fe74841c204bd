"""What the allocator holds is told, and given back when it is much."""

from __future__ import annotations

import mlx.core as mx
import pytest

from headrace.actors.engine import memory


def test_usage_counts_what_is_held() -> None:
    before = memory.usage()
    held = mx.zeros((1 << 20,), dtype=mx.uint8)
    mx.eval(held)
    after = memory.usage()
    assert after.active_bytes - before.active_bytes >= held.nbytes
    assert after.peak_bytes >= after.active_bytes


def test_freed_buffers_stay_for_reuse_unless_they_are_many() -> None:
    mx.clear_cache()
    mx.eval(mx.zeros((1 << 20,), dtype=mx.uint8))
    assert memory.usage().cache_bytes >= 1 << 20
    memory.release_buffers(above_bytes=1 << 30)
    assert memory.usage().cache_bytes >= 1 << 20
    memory.release_buffers(above_bytes=1 << 10)
    assert memory.usage().cache_bytes == 0


@pytest.mark.skipif(mx.metal.is_available(), reason="would change a limit of this machine")
def test_without_metal_nothing_is_pinned() -> None:
    assert memory.set_wired_limit() is None
    assert memory.set_wired_limit(1 << 30) is None
