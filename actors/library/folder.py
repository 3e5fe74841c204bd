"""A model folder: what makes a directory one, and what its files say without loading it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs

from headrace.runtime.errors import Code, RequestError

Origin: TypeAlias = Literal["registry", "gguf", "hub", "folder"]

_SHARD = re.compile(r"-of-(\d+)\.safetensors$")


@attrs.frozen
class ModelFolder:
    """A model that is on this machine, complete. Nothing of it is in memory.

    `id` is the one name it has in every answer; `path` has no links left in it.
    """

    id: str
    path: Path
    origin: Origin
    model_type: str
    # Of the weight files.
    size_bytes: int
    # When the folder's config was written, in seconds since the epoch.
    created_seconds: int


def load_failed(message: str) -> RequestError:
    return RequestError(Code.LOAD_FAILED, message)


def read_folder(path: Path, name: str, origin: Origin) -> ModelFolder:
    """Look at a folder. Raises `RequestError` (load-failed) that says what it lacks."""
    path = path.resolve()
    config_file = path / "config.json"
    try:
        model_type = _model_type(config_file)
        weights = sorted(path.glob("model*.safetensors"))
        _check_complete(path, weights)
        return ModelFolder(
            id=name,
            path=path,
            origin=origin,
            model_type=model_type,
            size_bytes=sum(file.stat().st_size for file in weights),
            created_seconds=int(config_file.stat().st_mtime),
        )
    except OSError as error:
        raise load_failed(f"{path}: {error.strerror or error}") from error


def is_model(path: Path) -> bool:
    try:
        read_folder(path, "", "folder")
    except RequestError:
        return False
    return True


def _model_type(config_file: Path) -> str:
    if not config_file.is_file():
        raise load_failed(f"{config_file.parent} holds no config.json")
    try:
        config: Any = json.loads(config_file.read_bytes())
    except ValueError as error:
        raise load_failed(f"{config_file} is not JSON: {error}") from error
    model_type = config.get("model_type") if isinstance(config, dict) else None
    if not isinstance(model_type, str):
        raise load_failed(f"{config_file} names no model_type")
    return model_type


def _check_complete(path: Path, weights: list[Path]) -> None:
    """An interrupted copy or download may leave some of the numbered weight files only."""
    if not weights:
        raise load_failed(f"{path} holds no model*.safetensors")
    counts = [int(match[1]) for file in weights if (match := _SHARD.search(file.name))]
    if counts and len(counts) < max(counts):
        raise load_failed(f"{path} holds {len(counts)} of {max(counts)} weight files")
