"""A model folder becomes an engine and a tokenizer, on the thread that will own the engine."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.utils import _get_classes, dequantize_model, load_model

from headrace.actors.engine import footprint, kv
from headrace.actors.engine.batch import BatchEngine
from headrace.actors.engine.config import Config, end_tokens, read_config
from headrace.actors.engine.embedding_files import is_encoder, read_embedder
from headrace.actors.engine.embedding_load import EmbeddingTokenizer, lazy_encoder, without_head
from headrace.actors.engine.encoding import EncoderEngine
from headrace.actors.engine.estimate import described
from headrace.actors.engine.headers import Numerics, read_weight_files
from headrace.actors.engine.tokens import TextTokenizer
from headrace.runtime.contracts import ModelInfo
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.ports import LoadedModel

# Weights are read in portions of at most this size, and at least so many, with word of the
# progress after each.
PORTION_BYTES, PORTIONS = 64 << 20, 10


class MlxLoader:
    """The `Loader` port over mlx-lm.

    `locate` finds the folder of a source; by default a source is a folder. `numerics` says how
    weights are held; by default as stored, but as float32 on a CPU, where that is much faster
    than any smaller type. Code that comes with a model is never run.
    """

    def __init__(
        self, locate: Callable[[str], Path] = Path, *, numerics: Numerics | None = None
    ) -> None:
        self._locate = locate
        self._numerics = numerics

    def __call__(self, source: str, progress: Callable[[float], None]) -> LoadedModel:
        """Raises `RequestError` (load-failed); its reason holds no path and no class name."""
        try:
            return self._load(self._locate(source), progress)
        except RequestError as error:
            _let_go(error)
            raise

    def _load(self, folder: Path, progress: Callable[[float], None]) -> LoadedModel:
        progress(0.0)
        on_cpu = mx.default_device().type == mx.DeviceType.cpu
        numerics: Numerics = self._numerics or ("float32" if on_cpu else "stored")
        config, files = read_config(folder), read_weight_files(folder)
        expected = described(folder, config, files, numerics, "cpu" if on_cpu else "gpu")
        # First what is small, so that a broken tokenizer costs no load.
        tokenizer = _tokenizer(folder, config, expected)
        if is_encoder(config):
            return self._load_encoder(folder, config, numerics, expected, tokenizer, progress)
        model = _model(folder, config)
        with _or_failed("its weights cannot be read into memory"):
            _read_weights(model, numerics, progress)
        with _or_failed("it cannot compute a token"):
            info = _measured(model, expected)
            tokenizer.logits = info.vocab_size
            engine = BatchEngine(
                model,
                end_tokens=tokenizer.end_tokens,
                vocab_size=info.vocab_size,
                lookahead=not on_cpu,
                newline_tokens=tokenizer.newline_tokens,
            )
        progress(1.0)
        shared = engine.sharing
        found = attrs.evolve(info.footprint, together=shared.decode, bands=shared.bands)
        info = attrs.evolve(info, has_chat_template=tokenizer.has_chat_template, footprint=found)
        return LoadedModel(info, engine, tokenizer)

    def _load_encoder(
        self,
        folder: Path,
        config: Config,
        numerics: Numerics,
        expected: ModelInfo,
        tokenizer: TextTokenizer,
        progress: Callable[[float], None],
    ) -> LoadedModel:
        with _or_failed("its weights do not fit its configuration"):
            encoder = lazy_encoder(folder, config, numerics)
        with _or_failed("its weights cannot be read into memory"):
            _evaluate(encoder.arrays(), progress)
        with _or_failed("it cannot compute a token"):
            mx.eval(encoder([[0]]))
        progress(1.0)
        weights_bytes = sum(weight.nbytes for weight in encoder.arrays())
        info = attrs.evolve(expected, weights_bytes=weights_bytes)
        return LoadedModel(info, EncoderEngine(encoder, expected.vocab_size), tokenizer)


def foreseen(folder: Path, *, numerics: Numerics | None = None) -> ModelInfo:
    """What a load would find, without reading weights. Raises `RequestError` (load-failed).

    The caches are those that the model itself makes, so that windows, latents and states count
    for what they are; shapes of lazy arrays are known before anything is computed.
    """
    on_cpu = mx.default_device().type == mx.DeviceType.cpu
    numerics = numerics or ("float32" if on_cpu else "stored")
    config, files = read_config(folder), read_weight_files(folder)
    expected = described(folder, config, files, numerics)
    if is_encoder(config):
        return expected
    model = _model(folder, config)
    if numerics == "float32":
        dequantize_model(model)
        model.set_dtype(mx.float32)
    with _or_failed("it cannot compute a token"):
        found = footprint.of_model(model, expected.footprint)
    per_token = sum(group.bytes_per_token for group in found.groups)
    return attrs.evolve(expected, kv_bytes_per_token=per_token, footprint=found)


def lazy_model(folder: Path) -> Any:
    """The model of a folder, none of its weights read yet. Raises `RequestError` (load-failed)."""
    return _model(folder, read_config(folder))


def _tokenizer(folder: Path, config: Config, expected: ModelInfo) -> TextTokenizer:
    kind = TextTokenizer if expected.embedding is None else EmbeddingTokenizer
    with _or_failed("its tokenizer cannot be read"):
        return kind.read(
            folder, end_tokens=end_tokens(config), vocab_size=expected.vocab_size or None
        )


def _model(folder: Path, config: Config) -> Any:
    """The model with lazy weights, all of them found and of the right shapes."""
    if config.model.get("model_file") is not None:
        raise _failed("it comes with code of its own, which is not run")

    def classes(config: dict[str, Any]) -> Any:
        with _or_failed(f'models of the type "{config.get("model_type")}" are not supported'):
            return _get_classes(config)

    embeds = read_embedder(folder, config) is not None
    found = without_head(classes) if embeds else classes
    with _or_failed("its weights do not fit its configuration"):
        model, _ = load_model(folder, lazy=True, strict=True, get_model_classes=found)
    return model


def _read_weights(model: Any, numerics: Numerics, progress: Callable[[float], None]) -> None:
    """Evaluate the weights a portion at a time, so that packed and unpacked forms of all of them
    are never in memory together."""
    if numerics == "float32":
        dequantize_model(model)
        model.set_dtype(mx.float32)
    _evaluate(_weights(model), progress)


def _evaluate(weights: Sequence[mx.array], progress: Callable[[float], None]) -> None:
    total_bytes = sum(weight.nbytes for weight in weights)
    portion_bytes = min(PORTION_BYTES, total_bytes // PORTIONS)
    portion: list[mx.array] = []
    done_bytes = told_bytes = 0
    for weight in weights:
        portion.append(weight)
        done_bytes += weight.nbytes
        if done_bytes - told_bytes >= portion_bytes:
            mx.eval(portion)
            portion.clear()
            progress(done_bytes / total_bytes)
            told_bytes = done_bytes
    mx.eval(portion)


def _measured(model: Any, expected: ModelInfo) -> ModelInfo:
    """What one token through the model shows: the width of its logits, the growth of its caches.

    It says more than config arithmetic, as each family has caches of its own. Shapes are known
    before anything is computed; that the model computes is shown by the engine's own trial.
    """
    cache = kv.fresh(model)
    logits = model(mx.array([[0]]), cache=cache)
    found = footprint.of_caches(cache, expected.footprint)
    return attrs.evolve(
        expected,
        vocab_size=logits.shape[-1],
        weights_bytes=_weights_bytes(model),
        kv_bytes_per_token=sum(group.bytes_per_token for group in found.groups),
        footprint=found,
    )


def _weights(model: Any) -> list[mx.array]:
    return _arrays(model.parameters())


def _weights_bytes(model: Any) -> int:
    return sum(weight.nbytes for weight in _weights(model))


def _arrays(tree: Any) -> list[mx.array]:
    leaves = dict(tree_flatten(tree))
    return [leaf for leaf in leaves.values() if isinstance(leaf, mx.array)]


@contextlib.contextmanager
def _or_failed(reason: str) -> Iterator[None]:
    try:
        yield
    except RequestError:
        raise
    except Exception as error:
        raise _failed(reason) from error


def _failed(reason: str) -> RequestError:
    return RequestError(Code.LOAD_FAILED, f"The model cannot be loaded: {reason}.")


def _let_go(error: BaseException | None) -> None:
    """An exception keeps the frames it came through, and these keep half a model in memory."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
    mx.clear_cache()
