"""The scheduler's promises: bounded gaps, bounded chunks, and nobody waits for ever."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.schedule import Decode, Prefill, Waiting, choose, next_step, piece

CHUNK = 64

rows = st.lists(
    st.builds(Waiting, st.integers(1, 50), st.integers(1, 400), st.integers(0, 10)),
    min_size=1,
    max_size=12,
    unique_by=lambda row: row.row,
)


def test_nothing_to_do_is_no_step() -> None:
    assert next_step([], 0, 0, CHUNK, CHUNK) is None


def test_prefill_and_decode_alternate_while_both_have_work() -> None:
    waiting = [Waiting(1, 300, 0)]
    assert isinstance(next_step(waiting, 3, 0, CHUNK, CHUNK), Prefill)
    assert next_step(waiting, 3, 1, CHUNK, CHUNK) == Decode()


def test_prompts_alone_are_not_held_up_by_an_empty_batch() -> None:
    assert isinstance(next_step([Waiting(1, 300, 0)], 0, 1, CHUNK, CHUNK), Prefill)


def test_who_comes_with_others_waits_for_a_few_of_them() -> None:
    """Given rows that have said nothing yet, when a chunk would complete others, then it comes
    before the decode; a long prompt is not waited for, nor is anybody where a stream runs."""
    short, long = Waiting(1, 40, 0), Waiting(2, 300, 0)
    assert next_step([short], 2, 1, CHUNK, CHUNK, newcomers=2) == Prefill(((1, 40),))
    for waiting, newcomers, chunks in ((short, 2, 2), (short, 1, 1), (long, 2, 1)):
        step = next_step([waiting], 2, chunks, CHUNK, CHUNK, newcomers=newcomers)
        assert step == Decode()
    low = Waiting(3, 40, 0, low=True)
    assert next_step([low], 2, 1, CHUNK, CHUNK, newcomers=2) == Decode()


def test_low_priority_gives_way_to_prompts_and_takes_its_turn_beside_streams() -> None:
    low, normal = Waiting(1, 10, 0, low=True), Waiting(2, 300, 0)
    # No prompt of low priority is computed while another waits, not even in the same step.
    assert next_step([low, normal], 0, 0, CHUNK, CHUNK) == Prefill(((2, CHUNK),))
    # Where only low priority decodes, it waits for the prompts of others and for no others.
    assert isinstance(next_step([normal], 3, 1, CHUNK, CHUNK, pressing=0), Prefill)
    assert next_step([low], 3, 1, CHUNK, CHUNK, pressing=0) == Decode()
    # Streams of others do not wait longer than they would.
    assert next_step([normal], 3, 1, CHUNK, CHUNK, pressing=1) == Decode()
    assert next_step([low], 3, 0, CHUNK, CHUNK, pressing=3) == Prefill(((1, 10),))


@given(rows, st.sets(st.integers(1, 50)), st.integers(0, 3), st.integers(0, 2))
def test_without_low_priority_nothing_is_different(
    waiting: list[Waiting], low: set[int], decoding: int, chunks: int
) -> None:
    """What waits beside prompts of low priority is scheduled as if these were not there."""
    mixed = [attrs.evolve(row, low=row.row in low) for row in waiting]
    first = [row for row in mixed if not row.low]
    alone = next_step(first, decoding, chunks, CHUNK, CHUNK)
    if first:
        assert next_step(mixed, decoding, chunks, CHUNK, CHUNK, pressing=decoding) == alone


def test_the_short_prompt_passes_the_long_one() -> None:
    assert choose([Waiting(1, 3000, 0), Waiting(2, 10, 0)], CHUNK, CHUNK) == ((2, 10),)


def test_short_prompts_share_a_step() -> None:
    assert choose([Waiting(1, 20, 0), Waiting(2, 10, 0), Waiting(3, 30, 0)], CHUNK, CHUNK) == (
        (2, 10),
        (1, 20),
    )


@given(rows)
def test_a_step_stays_within_the_chunk_padding_included(waiting: list[Waiting]) -> None:
    chunks = choose(waiting, CHUNK, CHUNK)
    assert len(chunks) * max(tokens for _, tokens in chunks) <= CHUNK
    assert all(tokens > 0 for _, tokens in chunks)


def test_a_prompt_is_cut_into_equal_pieces_and_leaves_no_short_rest() -> None:
    assert choose([Waiting(1, 76, 0)], CHUNK, 512) == ((1, 76),)
    assert choose([Waiting(1, 130, 0)], CHUNK, 512) == ((1, 65),)
    assert choose([Waiting(1, 76, 0)], CHUNK, CHUNK) == ((1, CHUNK),)
    assert choose([Waiting(1, 3 * CHUNK + 1, 0)], CHUNK, 512) == ((1, CHUNK),)


@given(st.integers(1, 10_000), st.integers(1, 600))
def test_a_piece_is_a_fifth_longer_than_a_chunk_at_most(remaining: int, chunk: int) -> None:
    assert 1 <= piece(remaining, chunk) <= max(1, -(-6 * chunk // 5))


@given(rows)
def test_only_whole_remainders_are_grouped(waiting: list[Waiting]) -> None:
    chunks = choose(waiting, CHUNK, CHUNK)
    left = {row.row: row.remaining for row in waiting}
    if len(chunks) > 1:
        assert all(left[row] == tokens for row, tokens in chunks)


@given(st.integers(1, 2000), st.lists(st.integers(1, 400), min_size=1, max_size=80))
def test_a_long_prompt_is_finished_against_a_stream_of_newcomers(
    length: int, newcomers: list[int]
) -> None:
    """Given a prompt of n chunks and one newcomer before every step, when the steps run, then
    only the newcomers of the first n steps can go ahead of it."""
    line = [Waiting(0, length, 0)]
    steps = 0
    while any(row.row == 0 for row in line):
        line.append(Waiting(steps + 1, newcomers[steps % len(newcomers)], 0))
        line = _after(line, dict(choose(line, CHUNK, CHUNK)))
        steps += 1
    chunks_needed = -(-length // CHUNK)
    chunks_of_a_newcomer = -(-max(newcomers) // CHUNK)
    assert steps <= (chunks_needed + 1) * (chunks_of_a_newcomer + 1)


def _after(line: list[Waiting], chosen: dict[int, int]) -> list[Waiting]:
    return [
        Waiting(
            row.row, row.remaining - chosen.get(row.row, 0), row.passed + (row.row not in chosen)
        )
        for row in line
        if row.remaining > chosen.get(row.row, 0)
    ]
