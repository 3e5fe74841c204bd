"""Draws are a pure function: spread evenly, different for everyone, the same every time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.engine.draws import Stream, gumbels, key, uniform, uniforms

SEEDS = st.integers(-(2**63), 2**64 - 1)
CHOICES = st.integers(0, 127)
POSITIONS = st.integers(0, 2**20)
# Of chi-square with 99 degrees of freedom, exceeded once in a million times.
CHI_SQUARE_99 = 185.0


def sequence(seed: int, choice: int = 0, stream: Stream = Stream.TOKEN) -> np.ndarray:
    """The first 20,000 draws."""
    positions = np.arange(20_000, dtype=np.uint64)
    return uniforms(np.full(20_000, key(seed, choice, stream), dtype=np.uint64), positions)


def uneven(draws: np.ndarray, cells: int = 100) -> float:
    """Chi-square of draws in [0, 1) over equal cells."""
    counts = np.histogram(draws, bins=cells, range=(0, 1))[0]
    expected = len(draws) / cells
    return float(((counts - expected) ** 2 / expected).sum())


@given(SEEDS, CHOICES, POSITIONS)
def test_a_draw_lies_in_the_unit_interval_and_fits_a_float32(
    seed: int, choice: int, position: int
) -> None:
    draw = uniform(seed, choice, position)
    assert 0 <= draw < 1
    assert float(np.float32(draw)) == draw


@given(SEEDS, CHOICES, POSITIONS, st.sampled_from(Stream))
def test_many_at_once_are_the_same_as_one_by_one(
    seed: int, choice: int, position: int, stream: Stream
) -> None:
    keys = np.array([key(seed, choice, stream), key(5, 0)], dtype=np.uint64)
    both = uniforms(keys, np.array([position, 7], dtype=np.uint64))
    assert both.tolist() == [uniform(seed, choice, position, stream), uniform(5, 0, 7)]


def test_the_sequence_is_the_published_one() -> None:
    # splitmix64.c started at 0 begins with these words; a key of 0 is that start.
    words = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    draws = uniforms(np.zeros(3, dtype=np.uint64), np.arange(3, dtype=np.uint64))
    assert draws.tolist() == [(word >> 40) * 2.0**-24 for word in words]


def test_the_draws_of_one_row_are_uniform_and_independent_of_each_other() -> None:
    for seed in (0, 1, -1, 2**64 - 1, 1234567):
        draws = sequence(seed)
        assert uneven(draws) < CHI_SQUARE_99
        # Pairs of neighbours fill the square: 10 x 10 cells, one number for each.
        pairs = np.floor(draws[:-1] * 10) * 10 + np.floor(draws[1:] * 10)
        assert uneven((pairs[::2] + 0.5) / 100) < CHI_SQUARE_99


def test_the_first_draws_of_consecutive_seeds_are_uniform() -> None:
    keys = np.array([key(seed, 0) for seed in range(20_000)], dtype=np.uint64)
    assert uneven(uniforms(keys, np.zeros(20_000, dtype=np.uint64))) < CHI_SQUARE_99


def test_neighbouring_sequences_are_independent() -> None:
    own = sequence(7)
    for other in (sequence(8), sequence(7, choice=1), sequence(7, stream=Stream.XTC)):
        assert abs(np.corrcoef(own, other)[0, 1]) < 0.04
        pairs = np.floor(own * 10) * 10 + np.floor(other * 10)
        assert uneven((pairs + 0.5) / 100) < CHI_SQUARE_99


@given(st.sets(st.tuples(SEEDS, CHOICES, st.sampled_from(Stream)), min_size=2, max_size=20))
def test_different_askers_have_different_sequences(
    askers: set[tuple[int, int, Stream]],
) -> None:
    assert len({key(*asker) for asker in askers}) == len(askers)


@given(SEEDS, CHOICES, POSITIONS)
def test_a_row_has_its_gumbels_whatever_others_draw(seed: int, choice: int, position: int) -> None:
    keys = np.array([key(5, 0), key(seed, choice)], dtype=np.uint64)
    both = gumbels(keys, np.array([7, position], dtype=np.uint64), 70)
    alone = gumbels(keys[1:], np.array([position], dtype=np.uint64), 64)
    assert both[1, :64].tolist() == alone[0].tolist()
    assert np.isfinite(both).all()


def test_gumbels_follow_their_distribution_and_each_other_by_chance() -> None:
    keys = np.full(500, key(3, 0), dtype=np.uint64)
    noise = gumbels(keys, np.arange(500, dtype=np.uint64), 40)
    # The distribution function exp(-exp(-x)) makes them uniform.
    even = np.exp(-np.exp(-noise.astype(np.float64)))
    assert uneven(even.ravel()) < CHI_SQUARE_99
    for pairs in (
        even[:, :-1] * 10 // 1 * 10 + even[:, 1:] * 10 // 1,
        even[:-1] * 10 // 1 * 10 + even[1:] * 10 // 1,
    ):
        assert uneven((pairs.ravel() + 0.5) / 100) < CHI_SQUARE_99
