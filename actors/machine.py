"""What a machine offers a model: its chip, its memory, and how fast that is read."""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path

import attrs

GB = 10**9
CPU_INFO = Path("/proc/cpuinfo")


@attrs.frozen
class Machine:
    """`bandwidth_bytes` is what memory gives a second; None where that is not known."""

    chip: str
    ram_bytes: int
    bandwidth_bytes: float | None = None


# Apple's own figures for the chips of its computers, in GB and GB/s; where a chip comes in two
# forms, those of the smaller one: https://support.apple.com/specs.
SKUS: tuple[tuple[str, int, int], ...] = (
    ("Apple M1", 8, 68),
    ("Apple M1", 16, 68),
    ("Apple M1 Pro", 32, 200),
    ("Apple M1 Max", 64, 400),
    ("Apple M1 Ultra", 128, 800),
    ("Apple M2", 16, 100),
    ("Apple M2", 24, 100),
    ("Apple M2 Pro", 32, 200),
    ("Apple M2 Max", 96, 400),
    ("Apple M2 Ultra", 192, 800),
    ("Apple M3", 16, 100),
    ("Apple M3", 24, 100),
    ("Apple M3 Pro", 36, 150),
    ("Apple M3 Max", 128, 300),
    ("Apple M3 Ultra", 512, 819),
    ("Apple M4", 16, 120),
    ("Apple M4", 32, 120),
    ("Apple M4 Pro", 64, 273),
    ("Apple M4 Max", 128, 410),
)


def skus() -> tuple[Machine, ...]:
    """Machines that people run models on, to compare with this one."""
    return tuple(Machine(chip, ram * GB, speed * GB) for chip, ram, speed in SKUS)


def this_machine() -> Machine:
    """Blocks for some milliseconds."""
    chip = _chip()
    speeds = {name: float(speed * GB) for name, _, speed in SKUS}
    return Machine(chip, ram_bytes(), speeds.get(chip))


def ram_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _chip() -> str:
    if platform.system() == "Darwin":
        return _sysctl("machdep.cpu.brand_string")
    try:
        lines = CPU_INFO.read_text().splitlines()
    except OSError:
        return platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _sysctl(name: str) -> str:
    """A text of macOS's own list of facts (sysctlbyname(3)); empty where it has none."""
    value = ctypes.create_string_buffer(256)
    size = ctypes.c_size_t(len(value))
    ctypes.CDLL(None).sysctlbyname(name.encode(), value, ctypes.byref(size), None, 0)
    return value.value.decode()
