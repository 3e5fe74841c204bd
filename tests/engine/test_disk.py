"""What is kept on disk outlives an engine, and nothing that lies there can do harm."""

from __future__ import annotations

import functools
import os
import random
import resource
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from headrace.actors.engine.disk_index import DiskIndex, Entry, digest

VOCAB = 97
LIMIT = 1 << 30
OURS = "one fingerprint"


def tokens_of(seed: int, count: int) -> tuple[int, ...]:
    draw = random.Random(seed)
    return tuple(draw.randrange(VOCAB) for _ in range(count))


PROMPT = tokens_of(1, 100)


@pytest.fixture
def take(take_with: Any) -> Any:
    return functools.partial(take_with, lookahead=False)


def opened(hand: Any, folder: Path, fingerprint: str = OURS, max_bytes: int = LIMIT) -> Any:
    hand.engine.limit_cache(LIMIT)
    hand.engine.keep_on_disk(str(folder), fingerprint, max_bytes)
    return hand


def work(hand: Any) -> list[str]:
    """Do what is to be done for the disk, as it is done: elsewhere. Answers what went wrong."""
    with ThreadPoolExecutor(1) as elsewhere:
        told = [elsewhere.submit(job).result() for job in hand.engine.disk_work()]
    return [trouble for trouble in told if trouble is not None]


def ask(hand: Any, row: int, prompt: Sequence[int]) -> int:
    hand.enter(row, prompt, max_tokens=6, chunk=32)
    reused: int = hand.engine.reused(row)
    hand.decode(6)
    hand.engine.remove(row)
    return reused


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


@pytest.fixture
def folder(tmp_path: Path, tiny_llama: Any, take: Any) -> Path:
    """One conversation of two turns, kept by an engine that is gone."""
    hand = opened(take(tiny_llama), tmp_path)
    ask(hand, 0, PROMPT)
    assert work(hand) == []
    ask(hand, 1, (*PROMPT, *hand.given[0], *tokens_of(2, 70)))
    assert work(hand) == []
    hand.engine.close()
    assert len(files(tmp_path)) == 2
    return tmp_path


def test_a_prompt_is_cut_anywhere_after_a_restart_and_answered_the_same(
    folder: Path, tiny_llama: Any, take: Any, alone: Any
) -> None:
    for cut in (32, 33, 64, 99, 100):
        hand = opened(take(tiny_llama), folder)
        prompt = (*PROMPT[:cut], *tokens_of(10 + cut, 5))
        assert ask(hand, 0, prompt) >= cut
        assert hand.given[0] == alone(tiny_llama, prompt, 6)


def test_the_last_turn_of_a_conversation_comes_from_both_files(
    folder: Path, tiny_llama: Any, take: Any, alone: Any
) -> None:
    hand = opened(take(tiny_llama), folder)
    prompt = (*PROMPT, *alone(tiny_llama, PROMPT, 6), *tokens_of(2, 70), 5, 6)
    assert ask(hand, 0, prompt) >= 100 + 6 + 70
    assert hand.given[0] == alone(tiny_llama, prompt, 6)


def test_what_is_there_is_not_written_again(folder: Path, tiny_llama: Any, take: Any) -> None:
    hand = opened(take(tiny_llama), folder)
    ask(hand, 0, PROMPT)
    assert list(hand.engine.disk_work()) == []


def broken(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def with_a_huge_header(path: Path) -> None:
    path.write_bytes(struct.pack("<Q", 1 << 60) + path.read_bytes()[8:])


def without_a_header(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:8] + b"x" * 50 + data[58:])


def misnamed(path: Path) -> None:
    path.rename(path.with_name("a name without a sum.safetensors"))


@pytest.mark.parametrize(
    "spoil", [broken, cut_short, emptied, with_a_huge_header, without_a_header, misnamed]
)
def test_a_file_that_was_spoiled_is_put_aside_and_told(
    spoil: Any, folder: Path, tiny_llama: Any, take: Any, alone: Any
) -> None:
    for path in files(folder):
        spoil(path) if spoil is not misnamed or path == files(folder)[0] else path.unlink()
    hand = opened(take(tiny_llama), folder)
    assert ask(hand, 0, PROMPT) == 0
    assert hand.given[0] == alone(tiny_llama, PROMPT, 6)
    assert "was put aside" in work(hand)[-1]
    assert list((folder / "aside").iterdir())


def test_a_file_of_another_model_is_put_aside(folder: Path, tiny_llama: Any, take: Any) -> None:
    hand = opened(take(tiny_llama), folder, fingerprint="another")
    assert ask(hand, 0, PROMPT) == 0
    assert all("it is of another model" in trouble for trouble in work(hand)[-2:])


def test_a_file_that_goes_while_it_is_known_is_missed_by_nobody(
    folder: Path, tiny_llama: Any, take: Any, alone: Any
) -> None:
    hand = opened(take(tiny_llama), folder)
    for path in files(folder):
        path.unlink()
    assert ask(hand, 0, PROMPT) == 0
    assert hand.given[0] == alone(tiny_llama, PROMPT, 6)


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file may grow beyond some bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_costs_nothing_but_the_file(
    tmp_path: Path, tiny_llama: Any, take: Any, full_disk: None
) -> None:
    hand = opened(take(tiny_llama), tmp_path)
    ask(hand, 0, PROMPT)
    assert [trouble[:31] for trouble in work(hand)] == ["a prefix was not kept on disk: "]
    assert files(tmp_path) == []
    assert ask(hand, 1, PROMPT) == len(PROMPT) - 1


def test_the_disk_is_bounded_and_the_oldest_go(tmp_path: Path, tiny_llama: Any, take: Any) -> None:
    hand = opened(take(tiny_llama), tmp_path, max_bytes=150_000)
    for row in range(5):
        ask(hand, row, tokens_of(20 + row, 100))
        assert work(hand) == []
        assert sum(path.stat().st_size for path in files(tmp_path)) <= 150_000
    again = opened(take(tiny_llama), tmp_path, max_bytes=150_000)
    assert ask(again, 0, tokens_of(20, 100)) == 0
    assert ask(again, 1, tokens_of(24, 100)) >= 99


def test_what_is_still_to_be_written_takes_room_already(
    tmp_path: Path, tiny_llama: Any, take: Any
) -> None:
    """Given room for one file and a half, when a second is to be kept while the first is still to
    be written, then it is not."""
    hand = opened(take(tiny_llama), tmp_path / "without bound")
    ask(hand, 0, PROMPT)
    assert work(hand) == []
    (file,) = files(tmp_path / "without bound")
    most = file.stat().st_size * 3 // 2
    hand = opened(take(tiny_llama), tmp_path / "bounded", max_bytes=most)
    ask(hand, 0, PROMPT)
    ask(hand, 1, tokens_of(3, len(PROMPT)))
    assert len(hand.engine.disk_work()) == 1


def test_what_was_left_unfinished_is_cleared_away(
    tmp_path: Path, tiny_llama: Any, take: Any
) -> None:
    (tmp_path / ".half.safetensors").write_bytes(b"half")
    opened(take(tiny_llama), tmp_path)
    assert files(tmp_path) == []


def test_no_more_is_waiting_to_be_written_than_a_few(
    tmp_path: Path, tiny_llama: Any, take: Any
) -> None:
    hand = opened(take(tiny_llama), tmp_path)
    jobs: list[Any] = []
    for row in range(12):
        ask(hand, row, tokens_of(40 + row, 70))
        jobs += hand.engine.disk_work()
    assert len(jobs) == 8


def test_states_are_kept_in_memory_only(tmp_path: Path, tiny_gemma: Any, take: Any) -> None:
    hand = opened(take(tiny_gemma), tmp_path)
    ask(hand, 0, PROMPT)
    assert list(hand.engine.disk_work()) == []


sequences = st.lists(st.integers(0, 1), min_size=1, max_size=8).map(tuple)


@settings(max_examples=60)
@given(st.lists(st.tuples(sequences, st.integers(0, 7)), max_size=8), sequences)
def test_the_index_covers_what_any_chain_of_files_covers(
    written: list[tuple[tuple[int, ...], int]], wanted: tuple[int, ...]
) -> None:
    index = DiskIndex(1000)
    kept = []
    for number, (tokens, start) in enumerate(written):
        start = min(start, len(tokens) - 1)
        kept.append((tokens[:start], tokens[start:]))
        index.add(Entry(str(number), start, digest(tokens[:start]), tokens[start:], 1))
    covered = 0
    for _ in kept:
        for before, own in kept:
            if before == wanted[: len(before)] and len(before) <= covered:
                whole = (*before, *own)
                alike = [n for n in range(len(whole) + 1) if whole[:n] == wanted[:n]]
                covered = max(covered, *alike)
    parts = index.cover(wanted)
    assert (parts[-1][1] if parts else 0) == min(covered, len(wanted))
    assert [end for _, end in parts] == sorted({end for _, end in parts})


def test_the_index_gives_up_what_was_used_longest_ago() -> None:
    index = DiskIndex(2)
    for number in range(2):
        index.add(Entry(str(number), 0, digest(()), (number,), 1))
    index.cover((0,))
    assert index.make_room(3) is None
    gone = index.make_room(1)
    assert gone is not None
    assert [entry.name for entry in gone] == ["1"]
    assert (len(index), index.nbytes) == (1, 1)
