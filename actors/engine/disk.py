"""Kept prefixes on disk: safetensors files that outlive the process.

    folder/NAME-CRC.safetensors     the KV of some tokens; CRC is the file's checksum
    folder/aside/...                files that were not what they have to be
    folder/.NAME...                 being written

Reading happens on the engine's thread, writing anywhere else: `write` gives the work, which needs
no device and leaves either a whole file or none.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import mlx.core as mx

from headrace.actors.engine.disk_index import DiskIndex, Entry, digest
from headrace.actors.engine.segments import Segment

FORMAT = "headrace prefix 1"
_SUFFIX = ".safetensors"
_PIECE_BYTES = 1 << 20
# The format's own limit of a header.
_HEADER_BYTES = 100_000_000


class NotOurs(ValueError):
    """A file that is broken, or not of this model."""


class DiskTier:
    """The files of one model. `fingerprint` stands for all that makes KV and tokens what they are.

    `troubles` are in words for the log. Raises `OSError` where the folder cannot be used.
    """

    def __init__(self, folder: Path, fingerprint: str, max_bytes: int) -> None:
        self._folder = folder
        self._fingerprint = fingerprint
        self.index = DiskIndex(max_bytes)
        self.troubles: list[str] = []
        # What is being written elsewhere, by name, and what has come of it: None for nothing.
        self._writing: dict[str, int] = {}
        self._ended: list[tuple[str, Entry | None]] = []
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.glob(f".*{_SUFFIX}")):
            path.unlink(missing_ok=True)
        found = [path for path in folder.glob(f"*{_SUFFIX}") if path.is_file()]
        for path in sorted(found, key=lambda path: path.stat().st_mtime):
            with self._or_aside(path):
                self.index.add(self._entry(path))
        for entry in self.index.make_room(0) or ():
            self._path(entry).unlink(missing_ok=True)

    def covered(self, tokens: tuple[int, ...]) -> int:
        """How much of the beginning of these tokens is on disk."""
        parts = self.cover(tokens)
        return parts[-1][1] if parts else 0

    def cover(self, tokens: tuple[int, ...]) -> list[tuple[Entry, int]]:
        """See `DiskIndex.cover`."""
        self._settle()
        return self.index.cover(tokens)

    @property
    def writing(self) -> int:
        """Files that are being written, or wait for it."""
        self._settle()
        return len(self._writing)

    def _settle(self) -> None:
        while self._ended:
            name, entry = self._ended.pop()
            self._writing.pop(name, None)
            if entry is not None:
                self.index.add(entry)

    def read(self, entry: Entry, first: int, last: int) -> Segment | None:
        """The KV of tokens first..last-1 of a sequence that the entry is part of; None where its
        file is gone or broken."""
        path = self._path(entry)
        with self._or_aside(path):
            if _checksum(path) != _stated_checksum(path):
                raise NotOurs("its checksum is wrong")
            os.utime(path)
            arrays: Any = mx.load(str(path))
            return _segment(arrays).between(first - entry.start, last - entry.start)
        self.index.remove(entry)
        return None

    def write(
        self, tokens: tuple[int, ...], start: int, parts: Sequence[Segment]
    ) -> Callable[[], str | None] | None:
        """Work that writes the KV of the tokens from `start` on, which these parts hold; it answers
        what went wrong. None where it would be too large."""
        nbytes = sum(part.nbytes for part in parts)
        self._settle()
        gone = self.index.make_room(nbytes + sum(self._writing.values()))
        if gone is None:
            return None
        prefix, own = digest(tokens[:start]), tokens[start:]
        entry = Entry(f"{digest(tokens)}-{start}", start, prefix, own, nbytes)
        self._writing[entry.name] = nbytes
        return partial(self._write, entry, parts, [self._path(old) for old in gone])

    def _write(self, entry: Entry, parts: Sequence[Segment], gone: Sequence[Path]) -> str | None:
        written, unfinished = None, self._folder / f".{entry.name}{_SUFFIX}"
        try:
            written = self._file(entry, parts, gone, unfinished)
        except (OSError, RuntimeError) as error:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
            return f"a prefix was not kept on disk: {error}"
        finally:
            self._ended.append((entry.name, written))
        return None

    def _file(
        self, entry: Entry, parts: Sequence[Segment], gone: Sequence[Path], unfinished: Path
    ) -> Entry:
        for path in gone:
            path.unlink(missing_ok=True)
        mx.save_safetensors(str(unfinished), _arrays(parts), self._metadata(entry))
        size = unfinished.stat().st_size
        if size < entry.nbytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        name = f"{entry.name}-{_checksum(unfinished):08x}"
        os.replace(unfinished, self._folder / f"{name}{_SUFFIX}")
        return attrs.evolve(entry, name=name, nbytes=size)

    def _metadata(self, entry: Entry) -> dict[str, str]:
        return {
            "format": FORMAT,
            "fingerprint": self._fingerprint,
            "start": str(entry.start),
            "prefix": entry.prefix,
            "tokens": json.dumps(entry.tokens, separators=(",", ":")),
        }

    def _entry(self, path: Path) -> Entry:
        """What a file says of itself. Raises `NotOurs`."""
        told = _stated(path)
        if told.get("format") != FORMAT or told.get("fingerprint") != self._fingerprint:
            raise NotOurs("it is of another model")
        tokens = tuple(map(int, json.loads(told["tokens"])))
        size = path.stat().st_size
        return Entry(
            path.name.removesuffix(_SUFFIX), int(told["start"]), told["prefix"], tokens, size
        )

    @contextlib.contextmanager
    def _or_aside(self, path: Path) -> Any:
        """A file that is not what it has to be is put where it is not looked for again."""
        try:
            yield
        except FileNotFoundError:
            pass
        except (NotOurs, KeyError, ValueError, RuntimeError, OSError) as error:
            self.troubles.append(f"{path.name} was put aside: {error}")
            with contextlib.suppress(OSError):
                aside = self._folder / "aside"
                aside.mkdir(exist_ok=True)
                os.replace(path, aside / path.name)

    def _path(self, entry: Entry) -> Path:
        return self._folder / f"{entry.name}{_SUFFIX}"


def _arrays(parts: Sequence[Segment]) -> dict[str, mx.array]:
    return {
        f"{layer}.{kind}.{number}": array
        for number, part in enumerate(parts)
        for layer, pair in enumerate(part.layers)
        for kind, array in zip(("keys", "values"), pair, strict=True)
    }


def _segment(arrays: Mapping[str, mx.array]) -> Segment:
    """The parts of a file in one. Lazy."""

    def joined(layer: int, kind: str) -> mx.array:
        names = (f"{layer}.{kind}.{number}" for number in range(len(arrays)))
        parts = [arrays[name] for name in names if name in arrays]
        if not parts:
            raise NotOurs(f"it has no {kind} of layer {layer}")
        return parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=2)

    layers = range(len({name.split(".")[0] for name in arrays}))
    return Segment(tuple((joined(layer, "keys"), joined(layer, "values")) for layer in layers))


def _stated(path: Path) -> dict[str, str]:
    """The metadata in the header of a safetensors file that is as long as it says. Raises
    `NotOurs`."""
    with path.open("rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else _HEADER_BYTES
        if length >= _HEADER_BYTES:
            raise NotOurs("it has no header")
        try:
            header = json.loads(file.read(length))
            metadata: dict[str, str] = header.pop("__metadata__")
            end = max(tensor["data_offsets"][1] for tensor in header.values())
        except (ValueError, KeyError, TypeError, AttributeError):
            raise NotOurs("its header cannot be read") from None
    if path.stat().st_size != 8 + length + end:
        raise NotOurs("it is cut short")
    return metadata


def _stated_checksum(path: Path) -> int:
    return int(path.name.removesuffix(_SUFFIX).rsplit("-", 1)[-1], 16)


def _checksum(path: Path) -> int:
    found = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            found = zlib.crc32(piece, found)
    return found
