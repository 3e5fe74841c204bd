"""Converting one model as a program: a GGUF file or a hub's folder into a folder of its own.

`python -m headrace.actors.library.converting SOURCE HOME RECIPE`, the recipe as JSON, with a
standard input that stays open.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from headrace.actors.library import ModelFolder, library_at
from headrace.actors.library.command import CommandFailed, run_command
from headrace.actors.library.folder import is_model, load_failed, read_folder
from headrace.actors.library.library import Library, content_digest, is_gguf
from headrace.actors.library.once import make_once
from headrace.actors.library.program import tell_model
from headrace.actors.library.table import REGISTRY_MODELS
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.told import tell
from headrace.runtime.worker_side import end_when_told, leave_with_parent

CONVERTER = "headrace.actors.engine.converting"
# Says in a converted folder what it was made of and how.
RECIPE_FILE = "conversion.json"
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}")
# What a name is made of a file's by taking it out.
NOT_IN_NAMES = re.compile(r"[^\w.-]+")
WORK = "work"


class Recipe(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Without `bits` weights are not quantized; `dtype` is what they are stored in then, and what
    is not quantized: as in the source where none is named."""

    bits: Literal[2, 3, 4, 5, 6, 8] | None = None
    group_size: Literal[32, 64, 128] = 64
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    # Of the folder that is made; none: the source's, and how it is quantized.
    name: Annotated[str, msgspec.Meta(pattern=f"^{NAME.pattern}$")] | None = None

    def suffix(self) -> str:
        return "mlx" if self.bits is None else f"{self.bits}bit"


class Made(msgspec.Struct):
    """`digest` tells the source by its content."""

    digest: str
    recipe: Recipe


def convert(library: Library, home: Path, source: str, recipe: Recipe) -> tuple[ModelFolder, bool]:
    """The folder, and whether it was made now. Raises `RequestError`."""
    path, digest = _source(library, source)
    name = recipe.name or f"{NOT_IN_NAMES.sub('-', path.stem).strip('.-')}-{recipe.suffix()}"
    if name in (model.id for model in REGISTRY_MODELS):
        raise RequestError(Code.INVALID_VALUE, f"{name!r} is the name of a registry model.")
    target = home.resolve() / "models" / name
    wanted = msgspec.json.encode(Made(digest, recipe))
    made = False

    def is_done() -> bool:
        if not is_model(target):
            return False
        file = target / RECIPE_FILE
        if not file.is_file() or file.read_bytes() != wanted:
            text = f"There is another model {name!r}; name this one otherwise."
            raise RequestError(Code.INVALID_VALUE, text)
        return True

    def build(folder: Path) -> None:
        nonlocal made
        made = True
        _run(path, folder, recipe, f"converting {source}")
        (folder / RECIPE_FILE).write_bytes(wanted)

    waiting = f"waiting for another process that prepares {name}"
    try:
        make_once(target, is_done, build, lambda: tell(doing=waiting))
    except OSError as error:
        raise load_failed(f"{name} could not be prepared: {error.strerror}") from error
    return read_folder(target, name, "folder"), made


def _source(library: Library, source: str) -> tuple[Path, str]:
    """The file or folder that is meant, and what its content is told by."""
    path = Path(source).expanduser()
    if is_gguf(path):
        return path.resolve(), content_digest(path)
    found = library.resolve(source, lambda doing, done: tell(doing=doing, fraction=done))
    digest = hashlib.sha256((found.path / "config.json").read_bytes())
    for file in sorted(found.path.glob("model*.safetensors")):
        digest.update(f"{file.name} {content_digest(file)}".encode())
    return found.path, digest.hexdigest()


def _run(source: Path, folder: Path, recipe: Recipe, doing: str) -> None:
    work = folder / WORK
    work.mkdir()
    output = work / "convert.log"

    def watch() -> None:
        lines = output.read_text(errors="replace").split()
        if lines and lines[-1].isdecimal():
            tell(doing=doing, fraction=int(lines[-1]) / 100)

    shown = msgspec.json.encode(recipe).decode()
    command = [sys.executable, "-m", CONVERTER, str(source), str(folder), shown]
    tell(doing=doing, fraction=0.0)
    try:
        run_command(command, output, watch, lifeline=True)
    except CommandFailed as error:
        raise load_failed(str(error).splitlines()[-1]) from error
    shutil.rmtree(work)


def main(source: str, home: str, recipe: str) -> int:
    library = library_at(Path(home), os.environ)
    wanted = msgspec.json.decode(recipe, type=Recipe)
    return tell_model(lambda: convert(library, Path(home), source, wanted))


if __name__ == "__main__":
    leave_with_parent()
    end_when_told()
    sys.exit(main(*sys.argv[1:]))
