"""The memory that a device has for models, asked of its driver: nothing here imports MLX.

Neither way was run where this was written, on a machine with a CPU only; both ask by the driver's
documented interface, and a driver that does not answer leaves the default as it is without it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

METAL = "/System/Library/Frameworks/Metal.framework/Metal"
OBJC = "/usr/lib/libobjc.dylib"


def has_cuda(packages: Iterable[str]) -> bool:
    return any(name.startswith("mlx_cuda") for name in packages)


def metal_working_set_bytes() -> int | None:
    """MTLDevice.recommendedMaxWorkingSetSize of the default device; None without an answer."""
    try:
        metal, objc = ctypes.CDLL(METAL), ctypes.CDLL(OBJC)
    except OSError:
        return None
    create, name, send = (
        metal.MTLCreateSystemDefaultDevice,
        objc.sel_registerName,
        objc.objc_msgSend,
    )
    create.restype = name.restype = ctypes.c_void_p
    name.argtypes = [ctypes.c_char_p]
    send.restype, send.argtypes = ctypes.c_uint64, [ctypes.c_void_p, ctypes.c_void_p]
    device = create()
    if not device:
        return None
    return int(send(device, name(b"recommendedMaxWorkingSetSize"))) or None


def cuda_card_bytes() -> int | None:
    """Memory of the first card by NVIDIA's management library; None without an answer, as on a
    machine whose card shares the RAM."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        try:
            card = pynvml.nvmlDeviceGetHandleByIndex(0)
            return int(pynvml.nvmlDeviceGetMemoryInfo(card).total) or None
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None
