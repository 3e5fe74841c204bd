"""POST /v1/embeddings: from its body to a request, and from vectors to its answer."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable
from typing import Any

import attrs

from headrace.http.wire.asking import Stamp
from headrace.http.wire.fields import Fields, wrong_value
from headrace.http.wire.prompts import read_prompts
from headrace.http.wire.readings import Readings
from headrace.http.wire.rules import TEXT, Rule, choice, count
from headrace.http.wire.shared_fields import check
from headrace.runtime.contracts import Event, Prompt
from headrace.runtime.readings import EmbeddingRequest, Input, PoolingKind

MOST_INPUTS = 2048
FLOAT, BASE64 = "float", "base64"

RULES: dict[str, Rule] = {
    "model": TEXT,
    "encoding_format": choice(FLOAT, BASE64),
    "dimensions": count(1),
    "instruction": TEXT,
    "user": TEXT,
}


@attrs.frozen
class Embeddings:
    """The embeddings that were asked for."""

    requests: tuple[EmbeddingRequest]
    response_id: str
    encoding: str

    @property
    def prompt_field(self) -> str:
        return "input"

    def complete(self, events: Iterable[Event]) -> dict[str, Any]:
        run = Readings.of(events)
        data = [
            {"object": "embedding", "index": index, "embedding": self._encoded(vector)}
            for index, vector in enumerate(run.vectors())
        ]
        tokens = run.usage.prompt_tokens
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "model": run.model, "data": data, "usage": usage, **run.warnings}

    def _encoded(self, vector: bytes) -> str | list[float]:
        """Both hold the very same numbers: a float32 has its exact place among the doubles."""
        if self.encoding == BASE64:
            return base64.b64encode(vector).decode()
        return list(struct.unpack(f"<{len(vector) // 4}f", vector))


def parse(body: dict[str, Any], stamp: Stamp, pooling: PoolingKind | None = None) -> Embeddings:
    """Read a body. `pooling` is how models embed here that were made for text. Raises
    `RequestError`, which names the field."""
    fields = Fields(body)
    check(fields, RULES)
    request = EmbeddingRequest(
        id=stamp.request_id,
        model=fields.text("model") or None,
        inputs=_inputs(fields),
        dimensions=fields.count("dimensions", 1),
        instruction=fields.text("instruction"),
        pooling=pooling,
        route=stamp.route,
    )
    encoding = fields.text("encoding_format") or FLOAT
    return Embeddings((request,), f"emb-{stamp.token}", encoding)


def _inputs(fields: Fields) -> tuple[Input, ...]:
    fields.required("input")
    prompts = read_prompts(fields, "input")
    if len(prompts) > MOST_INPUTS:
        raise wrong_value(fields.path("input"), f"must hold at most {MOST_INPUTS} inputs")
    several = isinstance(fields.value("input"), list) and prompts[0].tokens is None
    path = fields.path("input")
    return tuple(
        _input(prompt, f"{path}[{index}]" if several else path)
        for index, prompt in enumerate(prompts)
    )


def _input(prompt: Prompt, path: str) -> Input:
    given = prompt.text if prompt.tokens is None else prompt.tokens
    if not given:
        raise wrong_value(path, "must not be empty")
    return given
