"""Whether a model fits: the arithmetic of one row beside the weights."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.fit import fit, least_bytes, safe_context
from headrace.actors.machine import skus, this_machine
from headrace.runtime.contracts import ModelInfo
from headrace.runtime.footprint import Footprint, KvGroup

INFO = ModelInfo(
    id="m",
    context_window=8192,
    vocab_size=100,
    weights_bytes=1_000_000,
    kv_bytes_per_token=100,
    fingerprint="fp_0",
    footprint=Footprint((KvGroup(60), KvGroup(40, window=512)), 7, 256, 10, 1),
)
footprints = st.builds(
    Footprint,
    st.lists(
        st.builds(KvGroup, st.integers(1, 1000), st.none() | st.integers(1, 600)), max_size=3
    ).map(tuple),
    st.integers(0, 1000),
    st.sampled_from([1, 16, 256]),
    st.integers(0, 100),
    st.integers(0, 4),
)


def test_the_parts_add_up() -> None:
    found = fit(INFO, 1000, 2_000_000, chunk_tokens=256)
    assert found.kv_bytes == 60 * 1024 + 40 * 512 + 7
    assert found.transient_bytes == 40 * 256 + 256 * (10 + 1000)
    assert found.total_bytes == 1_000_000 + found.kv_bytes + found.transient_bytes
    assert found.fits


def test_speed_is_bandwidth_over_all_that_one_token_reads() -> None:
    found = fit(INFO, 1000, 2_000_000, chunk_tokens=256, bandwidth_bytes=108_192_700.0)
    assert found.predicted_decode_tps == 108_192_700 / (1_000_000 + found.kv_bytes)
    assert fit(INFO, 1000, 2_000_000, chunk_tokens=256).predicted_decode_tps is None


@given(footprints, st.integers(0, 3_000_000), st.integers(1, 600))
def test_the_longest_context_fits_and_one_more_token_does_not(
    footprint: Footprint, room_bytes: int, chunk_tokens: int
) -> None:
    info = attrs.evolve(INFO, footprint=footprint)
    usable_bytes = info.weights_bytes + room_bytes
    longest = safe_context(info, usable_bytes, chunk_tokens)
    if longest:
        assert fit(info, longest, usable_bytes, chunk_tokens).fits
    if longest < info.context_window:
        assert not fit(info, longest + 1, usable_bytes, chunk_tokens).fits


@given(footprints, st.integers(0, 5000), st.integers(0, 5000))
def test_more_tokens_never_take_less(footprint: Footprint, one: int, other: int) -> None:
    few, many = sorted((one, other))
    assert footprint.row_bytes(few) <= footprint.row_bytes(many)
    assert footprint.lone_bytes(few, 128) <= footprint.lone_bytes(many, 128)


@given(footprints, st.lists(st.integers(0, 3000), max_size=8), st.booleans(), st.booleans())
def test_a_batch_takes_no_less_than_its_rows(
    footprint: Footprint, lengths: list[int], together: bool, banded: bool
) -> None:
    footprint = attrs.evolve(footprint, together=together, bands=banded)
    taken = footprint.batch_bytes(lengths)
    assert taken >= sum(map(footprint.row_bytes, lengths))
    assert taken <= len(lengths) * footprint.row_bytes(max(lengths, default=0)) or not together


def test_a_model_without_room_for_a_short_context_is_of_no_use() -> None:
    least = least_bytes(INFO, chunk_tokens=512)
    assert fit(INFO, 512, least, chunk_tokens=512).fits
    assert not fit(INFO, 512, least - 1, chunk_tokens=512).fits


def test_this_machine_and_others_can_be_asked() -> None:
    machine = this_machine()
    assert machine.chip
    assert machine.ram_bytes > 1 << 28
    assert all(other.ram_bytes and other.bandwidth_bytes for other in skus())
