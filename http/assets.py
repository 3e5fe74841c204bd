"""The files of the web page: read once, when a server starts, and the same until it ends."""

from __future__ import annotations

import hashlib
from pathlib import Path

import attrs

FOLDER = Path(__file__).parent / "page"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@attrs.frozen
class Asset:
    """One file of the page."""

    data: bytes
    content_type: str
    etag: str


def read_page(folder: Path = FOLDER) -> dict[str, Asset]:
    """Every file of the page, by name."""
    files = (file for file in sorted(folder.iterdir()) if file.suffix in TYPES)
    return {file.name: _asset(file) for file in files}


def _asset(file: Path) -> Asset:
    data = file.read_bytes()
    return Asset(data, TYPES[file.suffix], hashlib.sha256(data).hexdigest()[:32])
