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
# The msgpack extension for integers outside 64 bits, as two's complement, the most significant
# byte first. JSON from clients may hold them anywhere.
BIG_INTEGER = 1


class FrameError(Exception):
    """What was read, or is to be written, is no frame of this link."""


class FrameTooLong(FrameError):
    """A frame passes the limit, or its head is garbage."""


class FrameGarbled(FrameError):
    """A frame's payload is no message of the codec."""


class NotEncodable(FrameError):
    """A message holds a value that has no form in a frame. Only the message is lost."""


class FrameReader:
    """Cuts a byte stream into frames, wherever it was split."""

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next_frame(self) -> bytes | None:
        """The payload of the next complete frame; None until more is fed.

        Raises `FrameTooLong`, from then on at each call, after all frames that came before.
        """
        if len(self._buffer) < HEAD.size:
            return None
        (length,) = HEAD.unpack_from(self._buffer)
        if length > self._max_bytes:
            raise FrameTooLong(f"a frame of {length} bytes is over the limit")
        end = HEAD.size + length
        if len(self._buffer) < end:
            return None
        payload = bytes(self._buffer[HEAD.size : end])
        del self._buffer[:end]
        return payload

    @property
    def truncated(self) -> bool:
        """Whether the stream, if it ended now, would end inside a frame."""
        return bool(self._buffer)


def framed(payload: bytes, max_bytes: int = MAX_FRAME_BYTES) -> bytes:
    """The frame of a payload. Raises `FrameTooLong` where the reader would."""
    if len(payload) > max_bytes:
        raise FrameTooLong(f"a frame of {len(payload)} bytes is over the limit")
    return HEAD.pack(len(payload)) + payload


class Codec:
    """Messages of the given attrs classes to payloads and back.

    The two ends of a link need the same classes in the same order. A field may hold anything
    that msgspec can tell from its annotation; a union of attrs classes it cannot. What is
    annotated as `Any` comes back as JSON would bring it: a tuple in there becomes a list.
    """

    def __init__(self, classes: Sequence[type]) -> None:
        self._numbers = {cls: number for number, cls in enumerate(classes)}
        self._encoder = msgspec.msgpack.Encoder()
        self._envelope = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
        self._decoders: dict[int, msgspec.msgpack.Decoder[Any]] = {
            number: msgspec.msgpack.Decoder(cls, ext_hook=_extension)
            for cls, number in self._numbers.items()
        }

    def encode(self, message: Any) -> bytes:
        """The payload of one frame. Raises `NotEncodable`; `KeyError` for an unknown class."""
        number = self._numbers[type(message)]
        try:
            return self._encode(number, message)
        except (TypeError, ValueError, RecursionError) as error:
            raise NotEncodable(f"a {type(message).__name__} cannot be sent: {error}") from None

    def _encode(self, number: int, message: Any) -> bytes:
        try:
            return self._encoder.encode((number, message))
        except OverflowError:
            return self._encoder.encode((number, _shrunk(msgspec.to_builtins(message))))

    def decode(self, payload: bytes) -> Any:
        """Raises `FrameGarbled` for what no message of the codec encodes to."""
        try:
            number, raw = self._envelope.decode(payload)
            return self._decoders[number].decode(raw)
        except (msgspec.MsgspecError, KeyError, ValueError, RecursionError) as error:
            raise FrameGarbled(f"not a message of this link: {error}") from None


def _shrunk(value: Any) -> Any:
    """The same plain value with its big integers as extensions."""
    match value:
        case bool():
            return value
        case int() if not -(1 << 63) <= value < 1 << 64:
            length = value.bit_length() // 8 + 1
            return msgspec.msgpack.Ext(BIG_INTEGER, value.to_bytes(length, "big", signed=True))
        case dict():
            return {key: _shrunk(held) for key, held in value.items()}
        case list() | tuple():
            return [_shrunk(held) for held in value]
        case _:
            return value


def _extension(code: int, data: memoryview) -> int:
    if code != BIG_INTEGER:
        raise ValueError(f"extension {code} is unknown")
    return int.from_bytes(data, "big", signed=True)
