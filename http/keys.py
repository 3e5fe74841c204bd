"""The keys that let clients in: those of the setting, and those in a file beside it."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

from headrace.runtime.errors import SettingError
from headrace.runtime.settings import Settings

logger = logging.getLogger(__name__)

OTHERS_MAY_READ = stat.S_IRGRP | stat.S_IROTH


def keys_of(settings: Settings) -> tuple[str, ...]:
    """Every key, each once. Raises `SettingError` for a file that cannot be read, or has none:
    a server that was to have keys must not start without."""
    if settings.api_keys_file is None:
        return settings.api_keys
    return tuple(dict.fromkeys((*settings.api_keys, *_read(settings.api_keys_file))))


def warn_of_readers(settings: Settings) -> None:
    """Log where other users of this machine may read the keys."""
    file = settings.api_keys_file
    if file is not None and file.stat().st_mode & OTHERS_MAY_READ:
        logger.warning("others may read the keys in %s; `chmod 600` lets only you", file)


def _read(file: Path) -> tuple[str, ...]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SettingError(f"api_keys_file: {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingError(f"api_keys_file: {file} is not text in UTF-8") from None
    keys = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        # Two words are most likely a name beside its key; the line itself is not repeated.
        if len(text.split()) > 1:
            raise SettingError(f"api_keys_file: {file} line {number}: expected one key, no spaces")
        keys.append(text)
    if not keys:
        raise SettingError(f"api_keys_file: {file} has no key")
    return tuple(keys)
