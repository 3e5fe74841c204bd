"""Where a loaded shared library keeps the addresses of the functions it imports.

A 64-bit little-endian ELF library calls an imported function through a slot that the loader
fills in. The layout is that of the System V ABI (chapters 4 and 5) and of its x86-64 and
AArch64 supplements, which number the relocations.
"""

from __future__ import annotations

import mmap
import platform
import struct
from collections.abc import Collection, Iterator
from pathlib import Path

# JUMP_SLOT and GLOB_DAT: the two kinds of relocation that put a function's address in a slot.
_SLOT_KINDS = {"x86_64": (7, 6), "aarch64": (1026, 1025)}

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_PLTRELSZ, _DT_STRTAB, _DT_SYMTAB, _DT_RELA, _DT_RELASZ, _DT_JMPREL = 2, 5, 6, 7, 8, 23
_RELA_BYTES, _SYMBOL_BYTES, _DYNAMIC_BYTES = 24, 24, 16


def slot_addresses(library: str, names: Collection[str]) -> dict[str, int]:
    """Addresses, in this process, of a loaded library's slots for the named functions.

    `library` is the file's name without folder. Names that it does not import are left out.
    Raises `LookupError` when it is not loaded or the processor is not known here, `OSError`
    where the system does not show its mappings.
    """
    kinds = _SLOT_KINDS.get(platform.machine())
    if kinds is None:
        raise LookupError(f"no relocation kinds are known for {platform.machine()}")
    base, path = _loaded(library)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        offsets = _Elf(image).slots(kinds, names)
    return {name: base + offset for name, offset in offsets.items()}


def _loaded(library: str) -> tuple[int, Path]:
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, _, offset, _, _, *path = line.split(maxsplit=5)
        if path and Path(path[0]).name == library and int(offset, 16) == 0:
            return int(addresses.split("-")[0], 16), Path(path[0])
    raise LookupError(f"{library} is not loaded")


class _Elf:
    """The dynamic section of one library's file."""

    def __init__(self, image: mmap.mmap) -> None:
        if image[:6] != b"\x7fELF\x02\x01":
            raise LookupError("the library is no 64-bit little-endian ELF file")
        self._image = image
        self._loads: list[tuple[int, int, int]] = []
        dynamic = (0, 0)
        for kind, start, address, size in self._segments():
            if kind == _PT_LOAD:
                self._loads.append((address, start, size))
            elif kind == _PT_DYNAMIC:
                dynamic = (start, size)
        self._tags = dict(self._dynamic(*dynamic))

    def slots(self, kinds: Collection[int], names: Collection[str]) -> dict[str, int]:
        """Offsets from the load address."""
        return {
            name: offset
            for offset, kind, symbol in self._relocations()
            if kind in kinds and (name := self._symbol_name(symbol)) in names
        }

    def _segments(self) -> Iterator[tuple[int, int, int, int]]:
        (table,) = struct.unpack_from("<Q", self._image, 32)
        size, count = struct.unpack_from("<HH", self._image, 54)
        for number in range(count):
            kind, _, start, address, _, file_size = struct.unpack_from(
                "<IIQQQQ", self._image, table + number * size
            )
            yield kind, start, address, file_size

    def _dynamic(self, start: int, size: int) -> Iterator[tuple[int, int]]:
        for at in range(start, start + size, _DYNAMIC_BYTES):
            tag, value = struct.unpack_from("<QQ", self._image, at)
            if tag == 0:
                return
            yield tag, value

    def _relocations(self) -> Iterator[tuple[int, int, int]]:
        for table, table_size in ((_DT_JMPREL, _DT_PLTRELSZ), (_DT_RELA, _DT_RELASZ)):
            if table in self._tags:
                start = self._file_position(self._tags[table])
                for at in range(start, start + self._tags[table_size], _RELA_BYTES):
                    offset, info = struct.unpack_from("<QQ", self._image, at)
                    yield offset, info & 0xFFFFFFFF, info >> 32

    def _symbol_name(self, number: int) -> str:
        symbols = self._file_position(self._tags[_DT_SYMTAB])
        (name,) = struct.unpack_from("<I", self._image, symbols + number * _SYMBOL_BYTES)
        start = self._file_position(self._tags[_DT_STRTAB]) + name
        return self._image[start : self._image.find(b"\0", start)].decode("ascii", "replace")

    def _file_position(self, address: int) -> int:
        for start, position, size in self._loads:
            if start <= address < start + size:
                return address - start + position
        raise LookupError(f"address {address:#x} is in no segment of the file")
