"""Stored responses: what is kept, what is forgotten, and what survives."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.database import MEMORY, StoreInUse
from headrace.actors.history import History, open_store
from headrace.actors.history_store import ROW_BYTES, ResponseStore, State, StoredResponse
from headrace.runtime.errors import RequestError, SettingError
from headrace.runtime.settings import Settings
from headrace.runtime.thread import open_thread
from headrace.runtime.trace import Trace

NOW = 1_760_000_000.0
TTL = 100.0


def store(path: str = MEMORY, most_bytes: int = 1 << 20) -> ResponseStore:
    return ResponseStore(path, most_bytes=most_bytes, ttl_seconds=TTL)


def response(name: str, state: State = "finished", size: int = 10) -> StoredResponse:
    # What cannot be compressed has the size it has.
    noise = random.Random(name).randbytes(size)
    return StoredResponse(name, state, noise, b"in", b"all", b"", (f"item_{name}",))


def test_what_is_put_is_got() -> None:
    kept = store()
    assert kept.put(response("a"), NOW)
    found = kept.get("a", NOW)
    assert found is not None
    assert (found.body, found.input, found.conversation) == (response("a").body, b"in", b"all")
    assert kept.get("b", NOW) is None
    assert kept.delete("a")
    assert not kept.delete("a")
    assert (kept.usage().entries, kept.usage().bytes) == (0, 0)


def test_nothing_is_kept_longer_than_its_time() -> None:
    kept = store()
    kept.put(response("a"), NOW)
    assert kept.get("a", NOW + TTL - 1) is not None
    assert kept.get("a", NOW + TTL) is None
    assert kept.holder("item_a", NOW + TTL) is None
    assert kept.usage().entries == 0


def test_the_least_recently_used_goes_first_and_what_runs_goes_last() -> None:
    one = store()
    one.put(response("x", size=200), NOW)
    size = one.usage().bytes
    kept = store(most_bytes=3 * size + ROW_BYTES)
    kept.put(response("r", "running", size=200), NOW)
    kept.put(response("a", size=200), NOW)
    kept.put(response("b", size=200), NOW)
    kept.get("a", NOW)
    kept.put(response("c", size=200), NOW)
    there = [name for name in "rabc" if kept.get(name, NOW) is not None]
    assert there == ["r", "a", "c"]


def test_what_is_larger_than_all_is_not_kept() -> None:
    kept = store(most_bytes=2000)
    kept.put(response("a"), NOW)
    assert not kept.put(response("b", size=5000), NOW)
    assert kept.get("b", NOW) is None
    assert kept.get("a", NOW) is not None


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 900)), max_size=30))
def test_the_bytes_are_never_more_than_allowed(puts: list[tuple[str, int]]) -> None:
    kept = store(most_bytes=3000)
    for step, (name, size) in enumerate(puts):
        kept.put(response(name, size=size), NOW + step)
        assert kept.usage().bytes <= 3000


def test_an_item_is_found_in_the_latest_conversation_that_has_it() -> None:
    kept = store()
    kept.put(StoredResponse("a", "finished", b"", items=("i", "j")), NOW)
    kept.put(StoredResponse("b", "finished", b"", items=("i",)), NOW)
    held = [kept.holder(item, NOW) for item in ("i", "j", "k")]
    assert [None if found is None else found.id for found in held] == ["b", "a", None]
    kept.delete("b")
    again = kept.holder("i", NOW)
    assert again is not None
    assert again.id == "a"


class TestFiles:
    def test_a_file_outlives_its_server_and_what_ran_is_interrupted(self, tmp_path: Path) -> None:
        path = str(tmp_path / "deep" / "responses.sqlite3")
        first = store(path)
        first.put(response("a"), NOW)
        first.put(response("b", "running"), NOW)
        first.close()
        assert Path(path).stat().st_mode & 0o777 == 0o600
        second = store(path)
        states = [found.state for name in "ab" if (found := second.get(name, NOW)) is not None]
        assert states == ["finished", "interrupted"]
        second.close()

    def test_one_file_has_one_server(self, tmp_path: Path) -> None:
        path = str(tmp_path / "responses.sqlite3")
        first = store(path)
        with pytest.raises(StoreInUse):
            store(path)
        first.close()
        store(path).close()

    def test_a_file_that_is_none_is_begun_anew(self, tmp_path: Path) -> None:
        path = tmp_path / "responses.sqlite3"
        path.write_bytes(b"no database at all " * 100)
        kept = store(str(path))
        assert kept.put(response("a"), NOW)
        kept.close()

    @pytest.mark.parametrize("writes", [1, 7, 40])
    def test_a_killed_server_loses_nothing_that_it_has_answered(
        self, tmp_path: Path, writes: int
    ) -> None:
        path = str(tmp_path / "responses.sqlite3")
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            answered = [child.stdout.readline().strip() for _ in range(writes)]
            child.send_signal(signal.SIGKILL)
        again = store(path)
        for name in answered:
            found = again.get(name, NOW)
            assert found is not None
            assert found.body == name.encode() * 50
            assert found.state == "finished"
        again.close()


# Writes one response after the other, each in two states as a real one has them.
CHILD = """
import sys
from headrace.actors.history_store import ResponseStore, StoredResponse
store = ResponseStore(sys.argv[1], most_bytes=1 << 20, ttl_seconds=100.0)
for number in range(10_000):
    name = f"resp_{number % 200}"
    store.put(StoredResponse(name, "running", b"half"), 1760000000.0)
    store.put(StoredResponse(name, "finished", name.encode() * 50), 1760000000.0)
    print(name, flush=True)
    if number >= 45:
        sys.stdin.read()
"""


@asynccontextmanager
async def open_history(path: str | None = None) -> AsyncIterator[History]:
    kept = await open_store(Settings(responses_file=path))
    history = History(kept, open_thread, Trace())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(history.serve)
        yield history
        nursery.cancel_scope.cancel()


class TestActor:
    async def test_what_was_told_is_there_for_who_asks_and_after_the_end(
        self, tmp_path: Path
    ) -> None:
        path = str(tmp_path / "r.sqlite3")
        async with open_history(path) as history:
            history.tell_put(response("a"), NOW)
            assert await history.get("a", NOW) is not None
            history.tell_put(response("b"), NOW)
        async with open_history(path) as history:
            assert await history.get("b", NOW) is not None
            assert await history.delete("b")
            assert history.usage.entries == 1

    async def test_a_second_server_is_told_that_the_file_is_taken(self, tmp_path: Path) -> None:
        path = str(tmp_path / "r.sqlite3")
        async with open_history(path):
            with pytest.raises(SettingError, match="responses_file"):
                await open_store(Settings(responses_file=path))

    async def test_a_store_that_fails_costs_nobody_their_answer(self) -> None:
        kept = await open_store(Settings())
        history = History(kept, open_thread, Trace())
        kept.close()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(history.serve)
            assert not await history.put(response("a"), NOW)
            with pytest.raises(RequestError):
                await history.get("a", NOW)
            nursery.cancel_scope.cancel()
