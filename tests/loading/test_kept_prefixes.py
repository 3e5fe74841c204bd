"""Past prompts serve new ones through the whole runtime, also after it was closed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headrace.actors.engine.estimate import estimate
from headrace.actors.engine.load import MlxLoader
from headrace.actors.provision import Provision
from headrace.actors.runtime import Runtime, open_runtime
from headrace.actors.spec import ModelSpec
from headrace.runtime.contracts import Finished, InferenceRequest, Prompt, Sampling
from headrace.runtime.settings import Settings
from headrace.runtime.testing.runtime import Answer, ask

SHARED = tuple(5 + n * n % 300 for n in range(120))


@asynccontextmanager
async def opened(folder: Path, home: Path, **settings: Any) -> AsyncIterator[Runtime]:
    expected = estimate(folder, "float32")
    spec = ModelSpec(folder.name, str(folder), expected.weights_bytes, expected)
    provision = Provision((spec,), MlxLoader(), 1 << 30, memory_bytes=1 << 30)
    async with open_runtime(Settings(home=home, **settings), provision=provision) as runtime:
        await runtime.load(spec.id)
        yield runtime


async def say(runtime: Runtime, *more: int) -> tuple[str, int]:
    """The text of an answer, and how many prompt tokens were not computed for it."""
    request = InferenceRequest(
        id="r",
        model=None,
        prompt=Prompt(tokens=(*SHARED, *more)),
        sampling=Sampling(seed=1, temperature=0, ignore_eos=True),
        max_tokens=8,
    )
    answer: Answer = await ask(runtime, request)
    assert isinstance(answer.end, Finished)
    return answer.text, answer.end.usage.cached_tokens


async def test_what_a_request_computed_serves_the_next(model_folder: Any, tmp_path: Path) -> None:
    async with opened(model_folder(), tmp_path) as runtime:
        first, cached = await say(runtime, 9, 8)
        assert cached == 0
        assert await say(runtime, 9, 8) == (first, len(SHARED) + 1)
        _, cached = await say(runtime, 7, 6)
        assert cached == len(SHARED)
        cache = runtime.statistics().models[0].cache
        assert (cache.hits, cache.misses) == (2, 1)
        assert 0 < cache.bytes <= cache.max_bytes
        assert not (runtime.settings.home / "prefixes").exists()


async def test_with_no_bytes_for_it_nothing_is_kept(model_folder: Any, tmp_path: Path) -> None:
    async with opened(model_folder(), tmp_path, prompt_cache_bytes=0) as runtime:
        first, _ = await say(runtime, 9, 8)
        assert await say(runtime, 9, 8) == (first, 0)
        assert runtime.statistics().models[0].cache.bytes == 0


async def test_prompts_on_disk_serve_the_next_runtime(model_folder: Any, tmp_path: Path) -> None:
    folder, disk = model_folder(), {"prompt_cache_disk_bytes": 1 << 24}
    home = tmp_path / "home"
    async with opened(folder, home, **disk) as runtime:
        first, _ = await say(runtime, 9, 8)
    async with opened(folder, home, **disk) as runtime:
        assert await say(runtime, 9, 8) == (first, len(SHARED) + 1)


async def test_a_folder_that_cannot_be_used_is_told_and_harms_nothing(
    model_folder: Any, tmp_path: Path
) -> None:
    (tmp_path / "prefixes").write_text("in the way")
    async with opened(model_folder(), tmp_path, prompt_cache_disk_bytes=1 << 24) as runtime:
        (told,) = runtime.trace.events("cache.trouble")
        assert "no prefixes are kept on disk" in told.fields["trouble"]
        first, _ = await say(runtime, 9, 8)
        assert await say(runtime, 9, 8) == (first, len(SHARED) + 1)
