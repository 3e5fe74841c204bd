"""The command itself, from its start on: when it listens, and what it never imports."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
# It says where it listens, and imports nothing more until it is told to.
HELD = """
import sys
from headrace.http.cli import main
command = sys.modules["headrace.http.commands.serve"]
listen_at = command.listen_at
def held(sockets):
    listen_at(sockets)
    print("trio" in sys.modules, sockets[0].getsockname()[1], flush=True)
    sys.stdin.readline()
command.listen_at = held
main(["serve", *sys.argv[1:]])
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


@asynccontextmanager
async def program(code: str, *arguments: str, home: Path) -> AsyncIterator[trio.Process]:
    places = {"HEADRACE_HOME": str(home), "HF_HOME": str(home / "hub")}
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | places,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            await trio.aclose_forcefully(pipe)


async def test_the_parent_of_workers_imports_nothing_that_computes(
    hollow: Path, tmp_path: Path
) -> None:
    async with program(COMMAND, str(hollow), "--port", "0", home=tmp_path / "home") as process:
        assert process.stdout is not None
        assert process.stderr is not None
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
        with trio.fail_after(60):
            imported = b"".join([piece async for piece in process.stdout]).decode().split()
            assert await process.wait() == 0
        assert imported[0] == "imported:"
        assert {"headrace", "quart", "trio"} <= set(imported)
        assert not NEVER & set(imported)


async def test_who_connects_before_the_server_is_there_gets_an_answer(
    hollow: Path, tmp_path: Path
) -> None:
    async with held(hollow, tmp_path) as (process, port):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            caller = Caller(stream)
            await caller.send(http("GET", "/health"))
            assert process.stdin is not None
            await process.stdin.aclose()
            with trio.fail_after(START_SECONDS):
                assert Reply.of(await caller.read_to_end()).status == 200
        process.send_signal(signal.SIGTERM)
        with trio.fail_after(60):
            assert await process.wait() == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 1)]
)
async def test_a_signal_before_the_server_is_there_ends_it_at_once(
    hollow: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    async with held(hollow, tmp_path) as (process, port):
        process.send_signal(number)
        with trio.fail_after(60):
            assert await process.wait() == code
        with pytest.raises(OSError, match="all attempts to connect"):
            await trio.open_tcp_stream("127.0.0.1", port)


@asynccontextmanager
async def held(model: Path, home: Path) -> AsyncIterator[tuple[trio.Process, int]]:
    """A server that listens already, and is not imported yet; and its port."""
    async with program(HELD, str(model), "--port", "0", home=home / "home") as process:
        assert process.stdout is not None
        said = b""
        with trio.fail_after(START_SECONDS):
            while not said.endswith(b"\n"):
                said += await process.stdout.receive_some() or b"\n"
        imported, port = said.split()
        assert imported == b"False"
        yield process, int(port)
