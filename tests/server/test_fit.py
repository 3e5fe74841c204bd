"""GET /fit and `headrace fit`: whether a model fits, before it is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.http.cli import main
from headrace.runtime.testing import ScriptedModel
from headrace.runtime.testing.site import chat, http, open_site


def model() -> ScriptedModel:
    return ScriptedModel(
        weights_bytes=1_000_000, kv_bytes_per_token=1000, context_window=4096, load_seconds=0
    )


class TestRoute:
    async def test_the_current_model_at_its_whole_window(self) -> None:
        async with open_site(model(), memory_budget_bytes=3_000_000) as site:
            found = (await site.call(http("GET", "/fit"))).json
            assert (found["model"], found["context_tokens"]) == ("scripted", 4096)
            report = found["report"]
            assert report["weights_bytes"] == 1_000_000
            assert report["kv_bytes"] == 4_096_000
            assert report["usable_bytes"] == 3_000_000
            assert not report["fits"]
            assert report["max_safe_context"] == 2000
            assert found["machine"]["ram_bytes"] > 0
            assert found["measured_decode_tps"] is None
            assert {"sku", "ram_gb", "fits", "max_context", "decode_tps"} == set(
                found["sku_matrix"][0]
            )

    async def test_another_length_by_name_and_the_speed_that_was_measured(self) -> None:
        async with open_site(model(), memory_budget_bytes=3_000_000) as site:
            assert (await site.call(chat(max_tokens=5))).status == 200
            found = (await site.call(http("GET", "/fit?model=scripted&context=1000"))).json
            assert found["report"]["fits"]
            assert found["report"]["total_bytes"] == 2_000_000
            assert found["measured_decode_tps"] == pytest.approx(100)
            assert found["measured_at"].endswith("+00:00")

    async def test_an_unknown_model_and_a_length_that_is_none(self) -> None:
        async with open_site(model()) as site:
            reply = await site.call(http("GET", "/fit?model=nobody"))
            assert (reply.status, reply.code) == (404, "model_not_found")
            reply = await site.call(http("GET", "/fit?context=long"))
            assert (reply.status, reply.code) == (400, "invalid_value")


class TestCommand:
    def test_a_model_that_is_not_here(self, tmp_path: Path) -> None:
        found = CliRunner().invoke(main, ["fit", "nobody/nothing", "--home", str(tmp_path)])
        assert found.exit_code == 1
        assert "not on this machine" in found.output

    def test_a_folder(self, tmp_path: Path) -> None:
        folder = tiny_llama(tmp_path / "tiny")
        found = CliRunner().invoke(main, ["fit", str(folder), "--ctx", "512", "--json"])
        assert found.exit_code == 0, found.output
        report = json.loads(found.output)
        assert report["model"] == "tiny"
        assert report["report"]["kv_bytes"] == 2 * 2 * 2 * 16 * 4 * 512
        assert report["report"]["max_safe_context"] == 2048

    def test_a_folder_that_does_not_fit(self, tmp_path: Path) -> None:
        folder = tiny_llama(tmp_path / "tiny")
        found = CliRunner().invoke(main, ["fit", str(folder), "--memory-budget-bytes", "100000"])
        assert found.exit_code == 1
        assert "fits:            no" in found.output


def tiny_llama(folder: Path) -> Path:
    """Two layers of random weights, as mlx-lm saves them; without a tokenizer, as none is read."""
    import mlx.core as mx
    from mlx_lm.models import llama
    from mlx_lm.utils import save_model

    settings = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "vocab_size": 384,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
    }
    mx.set_default_device(mx.cpu)
    save_model(folder, llama.Model(llama.ModelArgs.from_dict(settings)))
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "tokenizer.json").write_text("{}")
    return folder
