"""A folder of notes on a real disk: whole files or none, and no way out of it."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from headrace.actors.notes.folder import MOST_NOTE_BYTES, NoteFolder
from headrace.actors.notes.roots import Spot
from headrace.runtime.errors import Code, RequestError

TOO_LARGE = os.strerror(errno.EFBIG)


@contextmanager
def opened(root: Path, *parts: str, writes: bool = True) -> Iterator[NoteFolder]:
    with closing(NoteFolder(Spot(root, parts))) as folder:
        folder.open(writes=writes)
        yield folder


@contextmanager
def no_file_longer_than(limit_bytes: int) -> Iterator[None]:
    """The disk takes so much of a file, and then is full, as far as its writer can tell."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    with opened(tmp_path / "memory", "a", "b") as folder:
        folder.write("one.md", "Eins\r\n")
        folder.write("one.md", "One\r\nü")
        assert folder.read().texts == {"one.md": "One\r\nü"}
    assert os.listdir(tmp_path / "memory/a/b") == ["one.md"]


def test_reading_alone_makes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "memory", "a", writes=False) as folder:
        assert folder.read().texts == {}
    assert os.listdir(tmp_path) == []


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.write("one.md", "before")
        with no_file_longer_than(1000), pytest.raises(OSError, match=TOO_LARGE):
            folder.write("one.md", "x" * 5000)
        with no_file_longer_than(1000), pytest.raises(OSError, match=TOO_LARGE):
            folder.write("two.md", "x" * 5000)
        assert folder.read().texts == {"one.md": "before"}
    assert os.listdir(tmp_path) == ["one.md"]


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".headrace-one.md.part").write_text("hal")
    with opened(tmp_path) as folder:
        folder.write("one.md", "whole")
        assert os.listdir(tmp_path) == ["one.md"]


def test_one_writer_at_a_time_and_any_number_of_readers(tmp_path: Path) -> None:
    with opened(tmp_path), opened(tmp_path, writes=False):
        with pytest.raises(RequestError) as refused, opened(tmp_path):
            pass
        assert refused.value.code is Code.IN_USE
    with opened(tmp_path):
        """It is free again."""


class TestLinks:
    def test_a_folder_that_is_a_link_is_refused(self, tmp_path: Path) -> None:
        root, elsewhere = tmp_path / "memory", tmp_path / "elsewhere"
        root.mkdir()
        elsewhere.mkdir()
        (root / "out").symlink_to(elsewhere)
        for parts in (("out",), ("out", "deeper")):
            for writes in (True, False):
                with pytest.raises(RequestError) as refused, opened(root, *parts, writes=writes):
                    pass
                assert refused.value.code is Code.INVALID_VALUE
        assert os.listdir(elsewhere) == []

    def test_a_file_in_place_of_a_folder_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(RequestError) as refused, opened(tmp_path, "file"):
            pass
        assert refused.value.code is Code.INVALID_VALUE

    def test_the_root_itself_may_be_one(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "root").symlink_to(tmp_path / "real")
        with opened(tmp_path / "root", "a") as folder:
            folder.write("one.md", "One")
        assert (tmp_path / "real/a/one.md").read_text() == "One"

    def test_a_note_that_is_a_link_is_not_read_and_not_written_through(
        self, tmp_path: Path
    ) -> None:
        secret, root = tmp_path / "secret", tmp_path / "memory"
        secret.write_text("secret")
        root.mkdir()
        (root / "one.md").symlink_to(secret)
        with opened(root) as folder:
            shelf = folder.read()
            assert not shelf.texts
            assert shelf.others == {"one.md"}
            folder.write("one.md", "One")
        assert secret.read_text() == "secret"

    def test_a_folder_that_is_moved_meanwhile_is_written_where_it_is(self, tmp_path: Path) -> None:
        root, elsewhere = tmp_path / "memory", tmp_path / "elsewhere"
        elsewhere.mkdir()
        with opened(root, "a") as folder:
            (root / "a").rename(root / "b")
            (root / "a").symlink_to(elsewhere)
            folder.write("one.md", "One")
        assert os.listdir(elsewhere) == []
        assert os.listdir(root / "b") == ["one.md"]


def test_what_is_no_text_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "bytes.md").write_bytes(b"\xff\xfe")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "plain.txt").write_text("x")
    os.mkfifo(tmp_path / "pipe.md")
    with (tmp_path / "large.md").open("wb") as large:
        large.truncate(MOST_NOTE_BYTES + 1)
    with opened(tmp_path) as folder:
        shelf = folder.read()
    assert shelf.texts == {}
    assert shelf.others == {"bytes.md", "folder.md", "large.md", "pipe.md", "plain.txt"}
