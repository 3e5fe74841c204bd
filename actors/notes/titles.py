"""Titles: which of them mean the same, and the names of their files. Pure."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Collection

# Of a file's name without its suffix; file systems allow 255 with all of it.
MOST_NAME_BYTES = 80
DIGITS = 8


def cleaned(text: str, most: int) -> str:
    """One line of at most so many characters, without anything that moves a cursor."""
    visible = "".join(c for c in " ".join(text.split()) if unicodedata.category(c) not in _UNSEEN)
    return visible[:most].strip()


_UNSEEN = ("Cc", "Cs")


def normal(title: str) -> str:
    """What equal titles have in common: their words, without case, accents' spelling or marks.

    Applying it again changes nothing. Empty where there is no letter and no digit.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", title).casefold())
    kept = "".join(c if unicodedata.category(c)[0] in "LNM" else " " for c in folded)
    return unicodedata.normalize("NFKC", " ".join(kept.split()))


def file_name(key: str, taken: Collection[str]) -> str:
    """A name for the note with this normal title, none of those taken. It does not depend on the
    order in which notes come."""
    name = _shortened(key.replace(" ", "-"))
    digest = hashlib.sha256(key.encode()).hexdigest()
    digits = DIGITS
    while not name or name in taken:
        name = f"{_shortened(key.replace(' ', '-'))}-{digest[:digits]}".lstrip("-")
        digits += 1
    return name


def _shortened(name: str) -> str:
    """What is too long is told apart by a digest of all of it."""
    if len(name.encode()) <= MOST_NAME_BYTES:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:DIGITS]
    room = MOST_NAME_BYTES - DIGITS - 1
    return f"{name.encode()[:room].decode(errors='ignore').rstrip('-')}-{digest}"
