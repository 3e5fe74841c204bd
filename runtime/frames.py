"""Messages as length-prefixed msgpack frames. Pure: bytes in, values out.

A frame is four bytes of length, most significant first, and so many bytes of msgpack: an array
of the message's number in the codec and the message itself.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgspec

HEAD = struct.Struct(">I")
# A prompt of a million tokens fits many times over; more can only be garbage.
MAX_FRAME_BYTES = 256 << 20


class FrameError(Exception):
    """The bytes are no frame of this link: garbage, too long, or of an unknown kind."""


class FrameReader:
    """Cuts a byte stream into frames, wherever it was split."""

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames completed by `data`, without their heads. Raises `FrameError`."""
        self._buffer += data
        frames: list[bytes] = []
        at = 0
        while len(self._buffer) - at >= HEAD.size:
            (length,) = HEAD.unpack_from(self._buffer, at)
            if length > self._max_bytes:
                raise FrameError(f"a frame of {length} bytes is over the limit")
            end = at + HEAD.size + length
            if len(self._buffer) < end:
                break
            frames.append(bytes(self._buffer[at + HEAD.size : end]))
            at = end
        del self._buffer[:at]
        return frames

    @property
    def truncated(self) -> bool:
        """Whether the stream, if it ended now, would end inside a frame."""
        return bool(self._buffer)


def framed(payload: bytes) -> bytes:
    return HEAD.pack(len(payload)) + payload


class Codec:
    """Messages of the given attrs classes to payloads and back.

    The two ends of a link need the same classes in the same order. A field may hold anything
    that msgspec can tell from its annotation; a union of attrs classes it cannot.
    """

    def __init__(self, classes: Sequence[type]) -> None:
        self._numbers = {cls: number for number, cls in enumerate(classes)}
        self._encoder = msgspec.msgpack.Encoder()
        self._envelope = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
        self._decoders: list[msgspec.msgpack.Decoder[Any]] = [
            msgspec.msgpack.Decoder(cls) for cls in classes
        ]

    def encode(self, message: Any) -> bytes:
        """The payload of one frame. Raises `KeyError` for a class that was not given."""
        return self._encoder.encode((self._numbers[type(message)], message))

    def decode(self, payload: bytes) -> Any:
        """Raises `FrameError` for what no message of the codec encodes to."""
        try:
            number, raw = self._envelope.decode(payload)
            return self._decoders[number].decode(raw)
        except (msgspec.MsgspecError, IndexError) as error:
            raise FrameError(f"not a message of this link: {error}") from None
