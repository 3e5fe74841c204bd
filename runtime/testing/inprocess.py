"""Requests to an app without a server between: what a server would hand over, and what it gets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import trio

from headrace.http.app import App


@attrs.define
class Exchanged:
    """One answer, as the app gave it. `complete` says that its last byte was handed over."""

    status: int = 0
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: bytes = b""
    complete: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def take(self, message: Mapping[str, Any]) -> None:
        assert not self.complete, f"more after the end: {message}"
        if message["type"] == "http.response.start":
            self.status = message["status"]
            pairs = [(name.decode().lower(), value.decode()) for name, value in message["headers"]]
            self.headers = dict(pairs)
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")
            self.complete = not message.get("more_body", False)


async def post(app: App, path: str, body: bytes) -> Exchanged:
    """Send a JSON body and read the answer to its end."""
    answer = Exchanged()
    unsent = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        await trio.lowlevel.checkpoint()
        return unsent.pop() if unsent else await trio.sleep_forever()

    async def send(message: Any) -> None:
        await trio.lowlevel.checkpoint()
        answer.take(message)

    await app(_scope(path, body), receive, send)
    return answer


def _scope(path: str, body: bytes) -> Any:
    headers = {"host": "localhost", "content-type": "application/json", "content-length": len(body)}
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), str(value).encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "extensions": {},
    }
