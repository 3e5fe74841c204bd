"""Chunks are as long as their time allows, and never outside their bounds."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.pace import LEAST_CHUNK_TOKENS, Pace

seconds = st.floats(1e-6, 30)


def test_before_anything_is_measured_a_chunk_is_short() -> None:
    assert Pace(512, 0.25).chunk_tokens(0) == 64


def test_a_chunk_takes_its_time_and_no_longer() -> None:
    pace = Pace(512, 0.25)
    pace.prefilled(64, 0.064)
    assert pace.chunk_tokens(0) == 240


def test_beside_streams_a_chunk_is_a_few_decode_steps() -> None:
    pace = Pace(512, 0.25)
    pace.decoded(0.020)
    pace.prefilled(64, 0.064)
    assert pace.chunk_tokens(3) == 80
    assert pace.chunk_tokens(0) == 304


def test_a_short_chunk_tells_how_long_the_next_may_be() -> None:
    """A pass costs 15 ms and a millisecond for each token."""
    pace = Pace(512, 0.25)
    pace.decoded(0.020)
    pace.prefilled(16, 0.031)
    for _ in range(2):
        tokens = pace.chunk_tokens(3)
        pace.prefilled(tokens, 0.015 + 0.001 * tokens)
    assert pace.chunk_tokens(3) == 64


def test_a_short_chunk_that_cost_nothing_makes_no_endless_one() -> None:
    pace = Pace(4096, 0.25)
    pace.decoded(0.020)
    pace.prefilled(16, 0.014)
    assert pace.chunk_tokens(3) <= 160


def test_for_rows_of_low_priority_a_chunk_is_shorter_whoever_decodes() -> None:
    pace = Pace(512, 0.25)
    pace.decoded(0.064)
    pace.prefilled(64, 0.064)
    assert pace.chunk_tokens(0, low=True) == pace.chunk_tokens(3, low=True) == 96
    assert pace.chunk_tokens(3) == 416


def test_one_slow_step_makes_no_long_chunk() -> None:
    pace = Pace(512, 0.25)
    pace.decoded(0.020)
    pace.prefilled(64, 0.064)
    for seconds in (0.020, 0.020, 0.020, 1.0):
        pace.decoded(seconds)
        assert pace.chunk_tokens(3) == 80


def test_where_a_step_is_slow_a_chunk_is_worth_its_reading_of_the_weights() -> None:
    pace = Pace(512, 0.25)
    pace.decoded(0.200)
    pace.prefilled(64, 0.32)
    assert pace.chunk_tokens(0) == pace.chunk_tokens(3) == 240


def test_without_a_time_the_tokens_decide() -> None:
    pace = Pace(512, 0)
    pace.prefilled(64, 10.0)
    assert pace.chunk_tokens(3) == 512


def test_a_growing_context_makes_chunks_shorter() -> None:
    pace = Pace(4096, 0.25)
    pace.prefilled(100, 0.1)
    before = pace.chunk_tokens(0)
    pace.prefilled(100, 0.4)
    assert pace.chunk_tokens(0) < before


def test_a_chunk_behind_many_tokens_takes_no_longer() -> None:
    """A token costs a millisecond, and two behind a thousand others."""
    pace, depth = Pace(512, 0.25), 0
    pace.decoded(0.040)
    while depth < 3000:
        tokens = pace.chunk_tokens(3, depth=depth)
        seconds = 0.03 + tokens * 0.001 * (1 + (depth + tokens / 2) / 1000)
        # The first is of a size of its own.
        assert 0.11 < seconds < 0.17 or depth == 0
        pace.prefilled(tokens, seconds, depth)
        depth += tokens
    # The next prompt's first chunk is longer again.
    assert pace.chunk_tokens(3, depth=0) > pace.chunk_tokens(3, depth=depth)


def test_a_step_that_gives_streams_their_tokens_may_take_a_little_longer() -> None:
    """A pass costs 50 ms with the decode and a millisecond for each token."""
    pace = Pace(512, 0.25)
    pace.decoded(0.040)
    tokens = 64
    for _ in range(20):
        seconds = 0.05 + 0.001 * tokens
        pace.prefilled(tokens, seconds, mixed=True)
        tokens = pace.chunk_tokens(3, mixed=True)
    # It does not shrink for what the decode takes, and is below five of its steps.
    assert 0.16 < 0.05 + 0.001 * tokens < 0.2


def test_a_short_piece_beside_streams_does_not_make_the_next_chunks_short() -> None:
    """A pass costs 30 ms and half a millisecond for each token, and 20 ms more with a decode."""
    pace = Pace(512, 0.25)
    pace.decoded(0.040)
    pace.prefilled(160, 0.03 + 160 * 0.0005)
    before = pace.chunk_tokens(3)
    for _ in range(10):
        pace.prefilled(32, 0.05 + 32 * 0.0005, mixed=True)
    assert pace.chunk_tokens(3) >= before - LEAST_CHUNK_TOKENS


def test_a_prompt_of_few_tokens_does_not_make_the_chunks_of_long_ones_short() -> None:
    pace = Pace(512, 0.25)
    pace.prefilled(240, 0.24)
    for _ in range(4):
        # Mostly what it costs to read the weights once.
        pace.prefilled(4, 0.02)
    assert pace.chunk_tokens(0) > 100


@given(
    st.integers(LEAST_CHUNK_TOKENS, 4096),
    st.floats(0, 10),
    st.lists(st.tuples(st.integers(0, 5000), seconds, seconds), max_size=20),
    st.integers(0, 64),
)
def test_a_chunk_is_always_within_its_bounds(
    most_tokens: int,
    chunk_seconds: float,
    measured: list[tuple[int, float, float]],
    decoding: int,
) -> None:
    pace = Pace(most_tokens, chunk_seconds)
    for tokens, prefill_seconds, decode_seconds in measured:
        pace.prefilled(tokens, prefill_seconds)
        pace.decoded(decode_seconds)
    assert LEAST_CHUNK_TOKENS <= pace.chunk_tokens(decoding) <= most_tokens
    assert LEAST_CHUNK_TOKENS <= pace.chunk_tokens(decoding, low=True) <= most_tokens
