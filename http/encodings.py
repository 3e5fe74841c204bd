"""Compressed bodies, decoded within a bound: a small body may stand for an enormous one."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import Protocol

from headrace.runtime.errors import Code, RequestError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MOST_FRAMES = 16
GZIP_WINDOW = 16 + zlib.MAX_WBITS
# Decoding asks for this much at a time, so that the bound is met early.
PIECE_BYTES = 1 << 20


class _Decoder(Protocol):
    """One compressed frame."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def pull(self, most_bytes: int) -> bytes:
        """Some more of the output; nothing where the input ends too soon."""


class _Gzip:
    def __init__(self, data: bytes) -> None:
        self._decoder = zlib.decompressobj(GZIP_WINDOW)
        self._left = data

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def pull(self, most_bytes: int) -> bytes:
        piece = self._decoder.decompress(self._left, most_bytes)
        self._left = self._decoder.unconsumed_tail
        return piece


class _Zstd:
    def __init__(self, data: bytes) -> None:
        self._decoder = zstd.ZstdDecompressor()
        self._left = data

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def pull(self, most_bytes: int) -> bytes:
        data, self._left = self._left, b""
        return self._decoder.decompress(data, most_bytes)


_DECODERS: dict[str, Callable[[bytes], _Decoder]] = {"gzip": _Gzip, "x-gzip": _Gzip, "zstd": _Zstd}


def coding_of(header: str | None) -> str | None:
    """The one coding that a body has on it; None for a plain body.

    Raises `RequestError` (unsupported_encoding).
    """
    names = [name.strip().lower() for name in (header or "").split(",")]
    codings = [name for name in names if name not in ("", "identity")]
    if not codings:
        return None
    if len(codings) > 1 or codings[0] not in _DECODERS:
        raise _unsupported("The content encoding must be identity, gzip or zstd.")
    return codings[0]


def decoded(data: bytes, coding: str, limit_bytes: int) -> bytes:
    """The plain bytes of a body.

    Raises `RequestError`: body_too_large as soon as the output passes the limit, invalid_json
    where the data is damaged or ends too soon, unsupported_encoding for too many frames.
    """
    pieces: list[bytes] = []
    left = limit_bytes
    for _ in range(MOST_FRAMES):
        decoder = _DECODERS[coding](data)
        while not decoder.eof:
            piece = _pulled(decoder)
            left -= len(piece)
            if left < 0:
                raise too_large(limit_bytes)
            pieces.append(piece)
        data = decoder.unused_data
        if not data:
            return b"".join(pieces)
    raise _unsupported(f"The body has more than {MOST_FRAMES} compressed frames.")


def too_large(limit_bytes: int) -> RequestError:
    text = f"The body is larger than the limit of {limit_bytes} bytes."
    return RequestError(Code.BODY_TOO_LARGE, text)


def _pulled(decoder: _Decoder) -> bytes:
    try:
        piece = decoder.pull(PIECE_BYTES)
    except (zlib.error, zstd.ZstdError, EOFError):
        piece = b""
    if not piece and not decoder.eof:
        raise RequestError(Code.INVALID_JSON, "The compressed body is damaged or incomplete.")
    return piece


def _unsupported(message: str) -> RequestError:
    return RequestError(Code.UNSUPPORTED_ENCODING, message)
