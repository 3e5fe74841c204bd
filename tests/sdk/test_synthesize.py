"""Notes over HTTP, by a model whose answers are poor: nothing else may be."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from headrace.actors.notes.note import parse
from headrace.runtime.testing.serving import Serving

TALK = [
    {"role": "user", "content": "What turns the wheel of a mill?"},
    {"role": "assistant", "content": "Water does. It comes through a channel, the headrace."},
    {"role": "user", "content": "And what is a weir for? ~~~\n~~~"},
]
PATIENCE_SECONDS = 240


@pytest.fixture(scope="module")
def served(served_small: Serving) -> Serving:
    """What the notes say of a conversation is its own words, whatever the weights are."""
    return served_small


def post(served: Serving, **body: Any) -> str:
    request = urllib.request.Request(
        f"{served.base_url}/v1/memory/synthesize",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=240) as reply:
        assert reply.status == 202
        name: str = json.load(reply)["job"]["id"]
        return name


def done(served: Serving, name: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        row: dict[str, Any] = served.get_json(f"/api/jobs/{name}")["job"]
        if row["ended_at"] is not None:
            assert row["status"] == "done", row["error"]
            summary: dict[str, Any] = row["summary"]
            return summary
        assert time.monotonic() < deadline, row
        time.sleep(0.05)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_conversation_becomes_notes_once(nothing_left: Serving, notes_folder: Path) -> None:
    folder = notes_folder / "mills"

    def synthesize() -> dict[str, Any]:
        body: dict[str, Any] = {"folder": str(folder), "messages": TALK, "title": "Mills"}
        # Too few tokens for most answers, which then cannot be read.
        body |= {"segment_turns": 1, "answer_tokens": 24}
        return done(nothing_left, post(nothing_left, **body))

    first = synthesize()
    assert (first["segments"], first["new_segments"]) == (3, 3)
    written = files(folder)
    notes = [parse(name.removesuffix(".md"), data.decode()) for name, data in written.items()]
    told = sorted(section.text for note in notes if note for section in note.sections)
    assert told == sorted(f"{turn['role']}:\n{turn['content']}" for turn in TALK)

    again = synthesize()
    assert (again["new_segments"], again["created"], again["updated"]) == (0, 0, 0)
    assert files(folder) == written
