"""Repositories of the hub: fetched from a server, or answered at once when there is none.

The hub's client reads its settings when it is imported, so each story runs in a process of its
own. The server here speaks as much of the hub's protocol as one small model takes.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trio

from headrace.actors.jobs.child import OUTPUT
from headrace.actors.library import Library
from headrace.actors.provision import Provision
from headrace.actors.runtime import open_runtime
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.settings import Settings
from headrace.runtime.testing import ScriptedLoader

COMMIT = "c0ffee" + "0" * 34
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "model.safetensors": b"weights" * 1000,
    "tokenizer.json": b"{}",
    "modeling_custom.py": b"raise SystemExit",
    "pytorch_model.bin": b"the same in another format",
}
FETCHED = [body for name, body in FILES.items() if name.endswith((".json", ".safetensors"))]
RESOLVE = """
import json, sys, time
from pathlib import Path
from headrace.actors.library import Library
from headrace.runtime.errors import RequestError
said, begun = [], time.monotonic()
library = Library(Path(sys.argv[1]), Path(sys.argv[2]))
try:
    model = library.resolve(sys.argv[3], lambda *report: said.append(report))
    facts = {"id": model.id, "files": sorted(file.name for file in model.path.iterdir())}
except RequestError as error:
    facts = {"code": error.code, "message": str(error)}
print(json.dumps({**facts, "said": said, "seconds": time.monotonic() - begun}))
"""


class Hub(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path in ("/api/models/owner/name", "/api/models/owner/name/revision/main"):
            siblings = [{"rfilename": name} for name in FILES]
            self.answer(json.dumps({"id": "owner/name", "sha": COMMIT, "siblings": siblings}))
        elif path == f"/api/models/owner/name/tree/{COMMIT}":
            self.answer(
                json.dumps(
                    [
                        {"type": "file", "path": name, "size": len(body), "oid": digest(body)}
                        for name, body in FILES.items()
                    ]
                )
            )
        elif path.startswith(f"/owner/name/resolve/{COMMIT}/"):
            self.answer(FILES[path.rsplit("/", 1)[1]])
        elif path.startswith("/api/models/gated/"):
            self.refuse(403, "GatedRepo")
        else:
            self.refuse(404, "RepoNotFound")

    def answer(self, body: str | bytes) -> None:
        content = body.encode() if isinstance(body, str) else body
        self.send_response(200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{digest(content)}"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def digest(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def resolve(tmp_path: Path, source: str, endpoint: str, **variables: str) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-c", RESOLVE, tmp_path / "home", tmp_path / "hub", source],
        env={**os.environ, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": endpoint, **variables},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_a_repository_is_fetched_without_code_and_found_again_offline(
    tmp_path: Path, hub: str
) -> None:
    fetched = resolve(tmp_path, "owner/name", hub)
    assert fetched["id"] == "owner/name"
    assert fetched["files"] == ["config.json", "model.safetensors", "tokenizer.json"]
    assert fetched["said"][0] == ["fetching owner/name", None]
    assert fetched["said"][-1] == ["fetching owner/name", 1.0]
    again = resolve(tmp_path, "owner/name", hub, HF_HUB_OFFLINE="1")
    assert again["files"] == fetched["files"]
    assert again["said"] == []


async def test_a_job_pulls_a_repository_and_tells_of_its_bytes(
    tmp_path: Path, hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("HF_HUB_OFFLINE", "0"), ("HF_ENDPOINT", hub)):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    provision = Provision((), ScriptedLoader(), 0)
    async with open_runtime(Settings(home=tmp_path / "home"), provision=provision) as runtime:
        for made in (True, False):
            job = await runtime.jobs.submit("pull", {"model": "owner/name"})
            found = await runtime.jobs.wait(job.id)
            assert found is not None
            assert found.status == "done", found.error
            size = len(FILES["model.safetensors"])
            told = {"model": "owner/name", "bytes": size, "made": made}
            assert {name: (found.summary or {}).get(name) for name in told} == told
            root = await runtime.jobs.call(lambda store: store.folders.root)
            said = await trio.Path(root / job.id / OUTPUT).read_text()
            assert (f'"total":{sum(map(len, FETCHED))}' in said) == made


def test_bars_that_the_user_switched_off_are_no_error(tmp_path: Path, hub: str) -> None:
    fetched = resolve(tmp_path, "owner/name", hub, HF_HUB_DISABLE_PROGRESS_BARS="1")
    assert fetched["id"] == "owner/name"
    assert fetched["said"] == [["fetching owner/name", None]]


def test_a_repository_that_the_hub_does_not_know_is_not_found(tmp_path: Path, hub: str) -> None:
    answer = resolve(tmp_path, "owner/other", hub)
    assert answer["code"] == "model_not_found"
    assert "owner/other" in answer["message"]


def test_a_gated_repository_asks_for_a_login(tmp_path: Path, hub: str) -> None:
    answer = resolve(tmp_path, "gated/model", hub)
    assert answer["code"] == "load-failed"
    assert "hf auth login" in answer["message"]


def test_without_network_the_answer_comes_at_once(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        # Bound but not listening: a connection is refused.
        nobody.bind(("127.0.0.1", 0))
        answer = resolve(tmp_path, "owner/name", f"http://127.0.0.1:{nobody.getsockname()[1]}")
    assert answer["code"] == "load-failed"
    assert "cannot be reached" in answer["message"]
    assert answer["seconds"] < 10


def test_when_told_to_stay_offline_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the variable HF_HUB_OFFLINE sets, when the client is imported after it.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    library = Library(tmp_path / "home", tmp_path / "hub")
    with pytest.raises(RequestError, match="HF_HUB_OFFLINE") as caught:
        library.resolve("owner/name")
    assert caught.value.code == Code.LOAD_FAILED
