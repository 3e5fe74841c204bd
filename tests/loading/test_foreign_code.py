"""Nothing that comes with a model is run: no Python files, no pickles, no template's way out."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.actors.engine.load import MlxLoader
from headrace.runtime.errors import Code, RequestError

OWN = {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own", "AutoTokenizer": ["own.Own"] * 2}


class Trap:
    """A pickle that makes a folder when it is read, and Python files that do when imported."""

    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.sprung),)

    def set_in(self, folder: Path) -> None:
        code = f"import os\nos.mkdir({str(self.sprung)!r})\nclass Own: pass\n"
        for name in ("own.py", "modeling_own.py", "configuration_own.py", "tokenization_own.py"):
            (folder / name).write_text(code)


def change(folder: Path, name: str, **settings: Any) -> None:
    file = folder / name
    before = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(before | settings))


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path / "sprung")


def refusal(folder: Path) -> str:
    with pytest.raises(RequestError) as caught:
        MlxLoader()(str(folder), lambda share: None)
    assert caught.value.code is Code.LOAD_FAILED
    return caught.value.info.message


def plain_pickle(folder: Path, trap: Trap) -> None:
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(trap))


def pickle_in_an_archive(folder: Path, trap: Trap) -> None:
    with zipfile.ZipFile(folder / "model.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(trap))


def pickle_under_another_name(folder: Path, trap: Trap) -> None:
    (folder / "model.safetensors").write_bytes(pickle.dumps(trap))


@pytest.mark.parametrize("weights", [plain_pickle, pickle_in_an_archive, pickle_under_another_name])
def test_weights_that_are_pickles_are_refused(
    model_folder: Any, trap: Trap, weights: Callable[[Path, Trap], None]
) -> None:
    folder = model_folder()
    (folder / "model.safetensors").unlink()
    weights(folder, trap)
    assert "cannot be loaded" in refusal(folder)
    assert not trap.sprung.exists()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"model_type": "own", "auto_map": OWN}, 'models of the type "own" are not supported'),
        ({"model_file": "own.py"}, "it comes with code of its own, which is not run"),
        ({"model_type": "../../own"}, "are not supported"),
    ],
)
def test_a_model_that_needs_code_of_its_own_is_refused(
    model_folder: Any, trap: Trap, settings: dict[str, Any], reason: str
) -> None:
    folder = model_folder()
    trap.set_in(folder)
    change(folder, "config.json", **settings)
    assert reason in refusal(folder)
    assert not trap.sprung.exists()


def test_code_beside_a_model_that_does_not_need_it_is_not_run(
    model_folder: Any, trap: Trap
) -> None:
    folder = model_folder()
    trap.set_in(folder)
    plain_pickle(folder, trap)
    change(folder, "config.json", auto_map=OWN)
    MlxLoader()(str(folder), lambda share: None).engine.close()
    assert not trap.sprung.exists()


def test_a_tokenizer_brings_no_code_either(model_folder: Any, trap: Trap) -> None:
    folder = model_folder()
    trap.set_in(folder)
    change(folder, "tokenizer_config.json", auto_map=OWN, tokenizer_class="Own")
    # Whether it is read as what its files say or refused, is up to transformers.
    with suppress(RequestError):
        MlxLoader()(str(folder), lambda share: None).engine.close()
    assert not trap.sprung.exists()


def test_the_trap_works(trap: Trap) -> None:
    pickle.loads(pickle.dumps(trap))
    assert trap.sprung.exists()
