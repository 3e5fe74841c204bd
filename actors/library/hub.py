"""Models of the Hugging Face hub: those in its local cache, and fetching others.

The cache is read from the disk alone, so what is there works without network and without
loading the client library.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.actors.library.folder import load_failed
from headrace.runtime.errors import Code, RequestError

# What mlx-lm reads of a repository, without its Python files: they are never run.
_FILES = [
    "*.json",
    "*.jsonl",
    "*.jinja",
    "*.txt",
    "*.tiktoken",
    "tokenizer.model",
    "model*.safetensors",
]
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_CACHED = re.compile(r"models--(?P<owner>.+?)--(?P<name>.+)")


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where the hub's client keeps models: HF_HUB_CACHE, HF_HOME or the user's cache folder."""
    if chosen := environment.get("HF_HUB_CACHE"):
        return Path(chosen).expanduser()
    if home := environment.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    base = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "huggingface" / "hub"


def is_repository(source: str) -> bool:
    return _REPOSITORY.fullmatch(source) is not None


def cached(cache: Path, repository: str) -> Path | None:
    """The newest snapshot in the cache, which may be incomplete."""
    return _snapshot(cache / f"models--{repository.replace('/', '--')}")


def all_cached(cache: Path) -> Iterator[tuple[str, Path]]:
    for folder in sorted(cache.glob("models--*--*")):
        if (name := repository_of(folder)) and (snapshot := _snapshot(folder)):
            yield name, snapshot


def repository_of(path: Path) -> str | None:
    """The repository that a path inside the cache belongs to."""
    for part in (path, *path.parents):
        if match := _CACHED.fullmatch(part.name):
            return f"{match['owner']}/{match['name']}"
    return None


def _snapshot(folder: Path) -> Path | None:
    reference = folder / "refs" / "main"
    if reference.is_file():
        named = folder / "snapshots" / reference.read_text().strip()
        if named.is_dir():
            return named
    return None


def fetch(repository: str, cache: Path, progress: Callable[[int, int], None]) -> Path:
    """Bring a repository into the cache. One try: raises `RequestError` at once without network.

    `progress` is told how many bytes are there, and of how many. Raises:
    `model_not_found` when the hub does not know it (or hides it), `load-failed` otherwise.
    """
    import huggingface_hub
    from huggingface_hub import errors

    try:
        return Path(
            huggingface_hub.snapshot_download(
                repository,
                cache_dir=cache,
                allow_patterns=_FILES,
                tqdm_class=_reporting_bar(progress),
            )
        )
    except errors.GatedRepoError as error:
        raise load_failed(f"{repository} asks for a login: run `hf auth login`") from error
    except errors.RepositoryNotFoundError as error:
        message = f"there is no model {repository} on the hub, or it is private"
        raise RequestError(Code.MODEL_NOT_FOUND, message) from error
    except errors.LocalEntryNotFoundError as error:
        reason = f"{repository} is not on this machine and the hub cannot be reached"
        raise load_failed(f"{reason}: {error.__cause__ or error}") from error
    except (errors.HfHubHTTPError, OSError) as error:
        raise load_failed(f"{repository} could not be fetched: {error}") from error


def _reporting_bar(progress: Callable[[int, int], None]) -> type[Any]:
    """A bar class that draws nothing and passes on how much of the bytes is there."""
    from huggingface_hub.utils.tqdm import tqdm

    class ReportingBar(tqdm):
        def __init__(self, *args: Any, name: str | None = None, **settings: Any) -> None:
            # Without a terminal the client would switch the bar off, and its counting with it.
            settings |= {"file": io.StringIO(), "disable": False}
            super().__init__(*args, **settings)  # type: ignore[no-untyped-call]

        def update(self, n: float | None = 1) -> bool | None:
            super().update(n)
            # HF_HUB_DISABLE_PROGRESS_BARS has the last word.
            if not self.disable and self.unit == "B" and self.total:
                progress(min(int(self.n), int(self.total)), int(self.total))
            return None

    return ReportingBar
