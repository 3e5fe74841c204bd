"""A fast BLAS for MLX on Linux CPUs, without a compiler, root or an environment variable.

MLX's wheel for Linux CPUs is linked to the reference BLAS, which multiplies at a twentieth of
what the processor can. Its calls go through three import slots; pointing these at OpenBLAS from
the `scipy-openblas32` wheel is all that is needed. Elsewhere nothing is done: Metal and CUDA
have their own products, and macOS has Accelerate.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import mlx.core as mx
import numpy as np

from headrace.actors.engine.import_slots import slot_addresses

_LIBRARY = "libmlx.so"
_PREFIX = "scipy_"
_FUNCTIONS = ("cblas_sgemm", "cblas_dgemm", "cblas_cgemm")
# Some hosts set these for another processor than they run on; they choose slower kernels.
_MISLEADING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


@attrs.frozen
class BlasReport:
    """Which BLAS multiplies float32 matrices. `threads` is 0 where it is not ours to set."""

    which: str
    threads: int = 0
    # Why it is not OpenBLAS; empty where it is or need not be.
    reason: str = ""

    def __str__(self) -> str:
        threads = f", {self.threads} thread{'s' * (self.threads != 1)}" if self.threads else ""
        return f"{self.which}{threads}" + (f" ({self.reason})" if self.reason else "")


class _Unavailable(Exception):
    """OpenBLAS cannot be used; the argument says why."""


def use_fast_blas(threads: int = 1) -> BlasReport:
    """Make MLX multiply with OpenBLAS where that helps, and report what it multiplies with.

    More than one thread pays only where cores are idle: OpenBLAS's threads spin while they wait,
    and MLX has threads of its own. Calling again changes the number of threads. To be called
    before a model computes, by the process that computes.
    """
    if mx.default_device().type != mx.DeviceType.cpu:
        return BlasReport("the GPU's own")
    if sys.platform == "darwin":
        return BlasReport("Accelerate")
    try:
        return _use_openblas(threads)
    except _Unavailable as reason:
        return BlasReport("the bundled reference BLAS", reason=str(reason))


def _use_openblas(threads: int) -> BlasReport:
    library = _load_openblas(threads)
    try:
        slots = slot_addresses(_LIBRARY, _FUNCTIONS)
    except (LookupError, OSError) as error:
        raise _Unavailable(str(error)) from error
    if len(slots) < len(_FUNCTIONS):
        missing = ", ".join(sorted(set(_FUNCTIONS) - set(slots)))
        raise _Unavailable(f"{_LIBRARY} does not import {missing}")
    before = {name: _pointer(address).value for name, address in slots.items()}
    for name, address in slots.items():
        function = getattr(library, _PREFIX + name)
        _write(address, ctypes.cast(function, ctypes.c_void_p).value or 0)
    if not products_agree():
        for name, address in slots.items():
            _write(address, before[name])
        raise _Unavailable("a test product came out wrong")
    return BlasReport(_version(library), threads)


def _load_openblas(threads: int) -> ctypes.CDLL:
    found = importlib.util.find_spec("scipy_openblas32")
    if found is None or found.origin is None:
        raise _Unavailable("scipy-openblas32 is not installed: pip install 'headrace[cpu]'")
    file = Path(found.origin).parent / "lib" / "libscipy_openblas.so"
    for name in _MISLEADING:
        os.environ.pop(name, None)
    try:
        with _thread_variable(threads):
            library = ctypes.CDLL(str(file))
        for name in (*_FUNCTIONS, "openblas_set_num_threads"):
            getattr(library, _PREFIX + name)
    except (OSError, AttributeError) as error:
        raise _Unavailable(f"scipy-openblas32 cannot be used: {error}") from error
    library.scipy_openblas_set_num_threads(threads)
    return library


@contextlib.contextmanager
def _thread_variable(threads: int) -> Iterator[None]:
    """OpenBLAS starts its threads while it is loaded, as many as this variable says."""
    name = "OPENBLAS_NUM_THREADS"
    before = os.environ.get(name)
    os.environ[name] = str(threads)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _version(library: ctypes.CDLL) -> str:
    describe = library.scipy_openblas_get_config
    describe.restype = ctypes.c_char_p
    return " ".join(describe().decode().split()[:2])


def _pointer(address: int) -> ctypes.c_uint64:
    return ctypes.c_uint64.from_address(address)


def _write(address: int, value: int) -> None:
    """The page is writable in today's wheels; one linked with full RELRO would have it sealed."""
    page = address & -mmap.PAGESIZE
    writable = mmap.PROT_READ | mmap.PROT_WRITE
    sealed = ctypes.CDLL(None, use_errno=True).mprotect(
        ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), writable
    )
    if sealed:
        raise _Unavailable(f"the import slots of {_LIBRARY} cannot be written")
    _pointer(address).value = value


def products_agree() -> bool:
    """Whether MLX's products of each type that goes through BLAS agree with numpy's.

    Shapes are no multiples of a vector, and one operand is transposed, so that a wrong argument
    or a wrong integer width shows.
    """
    draw = np.random.default_rng(0).standard_normal
    left, right = draw((67, 131)), draw((37, 131))
    expected = left @ right.T
    turned = left + 1j
    cases = (
        (left, right, mx.float32, expected, 1e-4),
        (left, right, mx.float64, expected, 1e-11),
        (turned, right, mx.complex64, turned @ right.T, 1e-4),
    )
    return all(
        np.allclose(np.array(mx.array(a, dtype) @ mx.array(b, dtype).T), product, atol=tolerance)
        for a, b, dtype, product, tolerance in cases
    )
