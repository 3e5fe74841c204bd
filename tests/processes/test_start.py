"""The command itself, from its start on: what the parent of workers never imports."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from headrace.runtime.testing.site import Caller, Reply, chat, http
from headrace.runtime.testing.workers import START_SECONDS

COMMAND = """
import sys
from headrace.http.cli import main
main(["serve", *sys.argv[1:]], standalone_mode=False)
print("imported:", *sorted({name.partition(".")[0] for name in sys.modules}))
"""
# What computes, and what only fetches or answers by grammar. The model's process has all of it.
NEVER = {
    *("mlx", "mlx_lm", "numpy", "tokenizers", "torch", "transformers"),
    *("gguf", "huggingface_hub", "jsonschema", "llguidance", "scipy_openblas32"),
}


@pytest.fixture
def hollow(tmp_path: Path) -> Path:
    """A model folder as far as a server looks at it; its worker will find nothing to load."""
    folder = tmp_path / "hollow"
    folder.mkdir()
    config = {"model_type": "llama", "max_position_embeddings": 64, "vocab_size": 8}
    sizes = {"hidden_size": 8, "num_attention_heads": 1, "num_hidden_layers": 1}
    (folder / "config.json").write_text(json.dumps(config | sizes))
    header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    return folder


async def asked(port: int, data: bytes) -> Reply:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        caller = Caller(stream)
        await caller.send(data)
        return Reply.of(await caller.read_to_end())


async def test_the_parent_of_workers_imports_nothing_that_computes(
    hollow: Path, tmp_path: Path
) -> None:
    places = {"HEADRACE_HOME": str(tmp_path / "home"), "HF_HOME": str(tmp_path / "hub")}
    command = [sys.executable, "-c", COMMAND, str(hollow), "--port", "0"]
    process = await trio.lowlevel.open_process(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | places
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        said = b""
        with trio.fail_after(START_SECONDS):
            while (match := re.search(rb"listening on http://127.0.0.1:(\d+)", said)) is None:
                heard = await process.stderr.receive_some()
                assert heard, said.decode()
                said += heard
        port = int(match[1])
        assert (await asked(port, http("GET", "/v1/models"))).json["data"][0]["id"] == "hollow"
        # Parsing, routing, queue and the answer are all the parent's; the load is the worker's.
        with trio.fail_after(60):
            reply = await asked(port, chat("Hi"))
        assert (reply.status, reply.code) == (502, "load-failed")
        process.send_signal(signal.SIGTERM)
        with trio.fail_after(20):
            imported = b"".join([piece async for piece in process.stdout]).decode().split()
            assert await process.wait() == 0
        assert imported[0] == "imported:"
        assert {"headrace", "quart", "trio"} <= set(imported)
        assert not NEVER & set(imported)
    finally:
        if process.returncode is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        await trio.aclose_forcefully(process.stdout)
        await trio.aclose_forcefully(process.stderr)
