"""A prompt told back to its client before the answer (wire contract 5). Pure."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

import attrs

from headrace.runtime.contracts import Prompt
from headrace.runtime.ports import Decoder, Tokenizer


@attrs.frozen
class Echo:
    """`raw` are the bytes of each token of the prompt, `texts` what each completes of its text.

    `held` are the last tokens where an unfinished character is in them; the answer completes it.
    """

    raw: tuple[bytes, ...]
    texts: tuple[str, ...]
    held: tuple[int, ...] = ()

    @classmethod
    def of(cls, prompt: Prompt, tokens: Sequence[int], tokenizer: Tokenizer) -> Echo:
        """Ids are shown with the names of special tokens, a text as it came."""
        names = {number: name for name, number in tokenizer.special_tokens.items()}
        decoder = tokenizer.decoder(None, frozenset(names))
        texts = [decoder.add(token) for token in tokens]
        raw = [
            names[token].encode() if token in names else tokenizer.token_bytes(token)
            for token in tokens
        ]
        if prompt.text is None:
            return cls(tuple(raw), tuple(texts), _unfinished(tokens, raw))
        begin = names.get(tokens[0])
        if not prompt.text or (begin is not None and not prompt.text.startswith(begin)):
            # The document was begun here, not by the client.
            raw[0], texts[0] = b"", ""
        return cls(_fitting(raw, prompt.text), _told(texts, prompt.text, decoder))


def _unfinished(tokens: Sequence[int], raw: Sequence[bytes]) -> tuple[int, ...]:
    """The last tokens that have bytes of a character which is not complete."""
    utf8 = codecs.getincrementaldecoder("utf-8")("replace")
    utf8.decode(b"".join(raw))
    at, missing = len(tokens), len(utf8.getstate()[0])
    while missing > 0:
        at -= 1
        missing -= len(raw[at])
    return tuple(tokens[at:])


def _told(texts: Sequence[str], text: str, decoder: Decoder) -> tuple[str, ...]:
    """What comes back may differ from what went in, in spaces for one; then it comes at once."""
    if "".join(texts) + decoder.flush() == text:
        return tuple(texts)
    return (text, *[""] * (len(texts) - 1))


def _fitting(raw: Sequence[bytes], text: str) -> tuple[bytes, ...]:
    """Without the space that some tokenizers put before every text."""
    first = next((at for at, piece in enumerate(raw) if piece), None)
    if first is None or b"".join(raw) != b" " + text.encode():
        return tuple(raw)
    return (*raw[:first], raw[first][1:], *raw[first + 1 :])
