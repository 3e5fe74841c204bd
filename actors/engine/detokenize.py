"""Token ids to text, one token at a time, without ever showing part of a character.

Nearly every tokenizer decodes a token to the same bytes wherever it stands, apart from spaces
dropped at the very beginning. Then text is a table look-up and an incremental UTF-8 decoder.
For the others text is the growth of a short decoded window. `tokenizers.DecodeStream` is of that
second kind; it raises where a byte-fallback run turns out to be no UTF-8, which a model may say.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
REPLACEMENT = "\ufffd"
# An unfinished character has at most three bytes, so no more tokens than that can be part of one.
UNFINISHED_TOKENS = 3


@attrs.frozen
class Pieces:
    """The bytes of each token id; special tokens and ids without a token have none."""

    table: Sequence[bytes]
    # Spaces that the tokenizer drops where a text begins.
    dropped_spaces: int = 0

    def showing(self, special: Mapping[int, bytes]) -> Pieces:
        """The same with these tokens shown."""
        table = list(self.table)
        for token, piece in special.items():
            table[token] = piece
        return Pieces(table, self.dropped_spaces)


class PieceDecoder:
    """Decodes by table. Bytes that are no UTF-8 become U+FFFD as the Unicode standard advises,
    an unfinished character at the end exactly one."""

    def __init__(self, pieces: Pieces, *, continuing: bool) -> None:
        self._table = pieces.table
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._spaces = 0 if continuing else pieces.dropped_spaces

    def add(self, token: int) -> str:
        if token >= len(self._table):  # a model may have more rows than its tokenizer has tokens
            return ""
        text = self._utf8(self._table[token])
        return self._begun(text) if self._spaces and text else text

    def flush(self) -> str:
        return self._utf8(b"", True)

    def _begun(self, text: str) -> str:
        spaces = len(text) - len(text.lstrip(" "))
        dropped = min(spaces, self._spaces)
        self._spaces = self._spaces - dropped if spaces == len(text) else 0
        return text[dropped:]


class WindowDecoder:
    """Decodes the tokens since the last text twice over, without and with the newest ones.

    `silent` are the special tokens, which `decode` leaves out: they are no left context.
    """

    def __init__(
        self, decode: Callable[[Sequence[int]], str], silent: frozenset[int] = frozenset()
    ) -> None:
        self._decode = decode
        self._silent = silent
        self._window: list[int] = []
        # How many tokens of the window have been shown, and their text.
        self._shown = 0
        self._text = ""

    def add(self, token: int) -> str:
        if token in self._silent:
            return ""
        self._window.append(token)
        text = self._decode(self._window)
        if not text.endswith(REPLACEMENT):
            return self._show(text, len(self._window))
        settled = len(self._window) - UNFINISHED_TOKENS
        if settled <= self._shown:
            return ""
        return self._show(self._decode(self._window[:settled]), settled)

    def flush(self) -> str:
        rest = self._decode(self._window)[len(self._text) :]
        whole = rest.rstrip(REPLACEMENT)
        return whole if whole == rest else whole + REPLACEMENT

    def _show(self, text: str, count: int) -> str:
        new = text[len(self._text) :]
        if new:
            # What was shown before goes, what is shown now stays as the next text's left context.
            self._window = self._window[self._shown :]
            self._shown = count - self._shown
            self._text = self._decode(self._window[: self._shown])
        else:
            self._shown = count
        return new


def read_pieces(tokenizer: Tokenizer, vocabulary: Mapping[str, int]) -> Pieces | None:
    """The table of a tokenizer, or None where a token's text depends on its neighbours.
    `vocabulary` is all of its own, which it takes long to hand out."""
    state = tokenizer.decoder.__getstate__() if tokenizer.decoder is not None else b"null"
    rule = _rule(json.loads(state))
    if rule is None:
        return None
    to_bytes, dropped_spaces = rule
    added = tokenizer.get_added_tokens_decoder()
    table = [b""] * (max(vocabulary.values(), default=-1) + 1)
    for token, number in vocabulary.items():
        if number not in added or not added[number].special:
            table[number] = to_bytes(token)
    return Pieces(table, dropped_spaces)


def _rule(decoder: Any) -> tuple[Callable[[str], bytes], int] | None:
    """How a `tokenizers` decoder makes bytes of a token, and how many first spaces it drops."""
    match decoder:
        case {"type": "ByteLevel"}:
            return _byte_level(), 0
        case {"type": "Sequence", "decoders": [only]}:
            return _rule(only)
        case {"type": "Sequence", "decoders": [*steps]}:
            return _sentencepiece(steps)
    return None


def _sentencepiece(steps: list[Any]) -> tuple[Callable[[str], bytes], int] | None:
    """Replace..., ByteFallback, Fuse and perhaps Strip: the decoders of SentencePiece models."""
    replaced: list[tuple[str, str]] = []
    while steps:
        match steps:
            case [{"type": "Replace", "pattern": {"String": old}, "content": new}, *rest]:
                replaced.append((old, new))
                steps = rest
            case [{"type": "ByteFallback"}, {"type": "Fuse"}]:
                return _byte_fallback(replaced), 0
            case [
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": int(start), "stop": 0},
            ]:
                return _byte_fallback(replaced), start
            case _:
                return None
    return None


def _byte_fallback(replaced: Sequence[tuple[str, str]]) -> Callable[[str], bytes]:
    def to_bytes(token: str) -> bytes:
        for old, new in replaced:
            token = token.replace(old, new)
        byte = BYTE_TOKEN.fullmatch(token)
        return bytes([int(byte[1], 16)]) if byte else token.encode()

    return to_bytes


def _byte_level() -> Callable[[str], bytes]:
    """Each character stands for a byte: itself where it is printable, else the next above 255."""
    alphabet = sorted(ByteLevel.alphabet())
    printable = [char for char in alphabet if ord(char) < 256]
    others = (byte for byte in range(256) if chr(byte) not in printable)
    # What is in no alphabet is made unencodable, so that such a token is taken as it is.
    to_byte = dict.fromkeys(range(256), REPLACEMENT)
    to_byte |= {ord(char): char for char in printable}
    to_byte |= {ord(char): chr(next(others)) for char in alphabet[len(printable) :]}

    def to_bytes(token: str) -> bytes:
        try:
            return token.translate(to_byte).encode("latin-1")
        except UnicodeEncodeError:
            return token.encode()

    return to_bytes
