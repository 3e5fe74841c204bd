"""all-MiniLM-L6-v2 behind the real server: the vectors of a reference, through the official
client."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from tokenizers import Tokenizer

from headrace.actors.library import EMBEDDING_MODEL
from headrace.runtime.testing.serving import START_SECONDS, Serving, serving

SENTENCES = (Path(__file__).parent / "sentences.txt").read_text(encoding="utf-8").splitlines()
WINDOW = 256
# The first test waits for a server that starts, and perhaps for the model to be fetched.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def served(minilm: Path) -> Iterator[Serving]:
    with serving(model=EMBEDDING_MODEL) as server:
        server.until(lambda: worker(server)["state"] == "ready", within=START_SECONDS)
        yield server


@pytest.fixture(scope="module")
def client(served: Serving) -> Iterator[openai.OpenAI]:
    base_url = f"{served.base_url}/v1"
    with openai.OpenAI(base_url=base_url, api_key="any", max_retries=0, timeout=180) as client:
        yield client


@pytest.fixture(scope="module")
def tokenizer(minilm: Path) -> Tokenizer:
    read = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    read.no_truncation()
    read.no_padding()
    return read


@pytest.fixture(scope="module")
def known(client: openai.OpenAI) -> Any:
    """The vectors of the sentences, computed once."""
    return embed(client, SENTENCES)


def embed(client: openai.OpenAI, given: Any) -> Any:
    """The vectors, (inputs, 384)."""
    answer = client.embeddings.create(model=EMBEDDING_MODEL, input=given)
    assert [entry.index for entry in answer.data] == list(range(len(answer.data)))
    return np.array([entry.embedding for entry in answer.data])


class TestVectors:
    def test_fifty_sentences_are_what_a_reference_makes_of_them(
        self, known: Any, tokenizer: Tokenizer, minilm: Path, reference: Any
    ) -> None:
        assert len(known) == 50
        tokens = [tokenizer.encode(sentence).ids for sentence in SENTENCES]
        for vector, expected in zip(known, reference(minilm)(tokens), strict=True):
            assert abs(np.linalg.norm(vector) - 1) < 1e-6
            assert abs(vector @ expected - 1) < 1e-4
            assert np.abs(vector - expected).max() < 1e-5

    def test_similarities_are_those_that_the_models_makers_publish(self, known: Any) -> None:
        # From the documentation of sentence-transformers, "Semantic Textual Similarity".
        found = dict(zip(SENTENCES, known, strict=True))
        for one, other, cosine in [
            ("A man is eating food.", "A man is eating a piece of bread.", 0.7553),
            (
                "A man is riding a horse.",
                "A man is riding a white horse on an enclosed ground.",
                0.7369,
            ),
            (
                "A monkey is playing drums.",
                "Someone in a gorilla costume is playing a set of drums.",
                0.6433,
            ),
        ]:
            assert found[one] @ found[other] == pytest.approx(cosine, abs=1e-3)

    @pytest.mark.parametrize(
        ("query", "nearest"),
        [
            ("forgot my login", "How do I reset my password?"),
            ("weather in the Alps", "It will rain in the mountains tomorrow afternoon."),
            ("summing integers in Python", "def add(a, b): return a + b"),
            ("monetary policy decision", "Interest rates were left unchanged by the central bank."),
            ("opening hours of the gallery", "The museum is closed on Mondays."),
            (
                "battery life of a notebook",
                "How long does the laptop run without being plugged in?",
            ),
            ("baking a cake", "The recipe calls for two eggs and a cup of flour."),
        ],
    )
    def test_what_is_meant_is_what_is_nearest(
        self, client: openai.OpenAI, known: Any, query: str, nearest: str
    ) -> None:
        order = np.argsort(-(known @ embed(client, query)[0]))
        assert nearest in [SENTENCES[at] for at in order[:2]]

    def test_sixty_four_texts_of_all_lengths_keep_their_order(self, client: openai.OpenAI) -> None:
        letters = " ".join(SENTENCES)
        texts = [letters[17 * n :][: 1 + 37 * n % 200] for n in range(64)]
        assert {1, 199} <= {len(text) for text in texts}
        together = embed(client, texts)
        for at in range(0, 64, 7):
            alone = embed(client, texts[at])[0]
            assert int(np.argmax(together @ alone)) == at
            assert together[at] @ alone == pytest.approx(1, abs=1e-5)

    def test_token_ids_are_the_text_that_they_stand_for(
        self, client: openai.OpenAI, tokenizer: Tokenizer
    ) -> None:
        ids = [tokenizer.encode(sentence).ids for sentence in SENTENCES[:3]]
        assert np.allclose(embed(client, ids), embed(client, SENTENCES[:3]), atol=1e-6)
        assert np.allclose(embed(client, ids[0]), embed(client, SENTENCES[0]), atol=1e-6)


class TestForms:
    def test_the_client_reads_the_same_numbers_with_and_without_a_format_p1(
        self, client: openai.OpenAI
    ) -> None:
        # Without one the client asks for base64 and decodes it by itself.
        asked: dict[str, Any] = {"model": EMBEDDING_MODEL, "input": SENTENCES[:2]}
        implicit = client.embeddings.create(**asked)
        shown = client.embeddings.create(**asked, encoding_format="float")
        raw = client.embeddings.create(**asked, encoding_format="base64")
        for one, two, three in zip(implicit.data, shown.data, raw.data, strict=True):
            assert len(two.embedding) == 384
            text: Any = three.embedding
            decoded = struct.unpack("<384f", base64.b64decode(text))
            # Each was computed anew, in passes of another width.
            assert np.allclose(one.embedding, two.embedding, atol=1e-6)
            assert np.allclose(decoded, two.embedding, atol=1e-6)

    def test_usage_counts_the_tokens_of_all_inputs(
        self, client: openai.OpenAI, tokenizer: Tokenizer
    ) -> None:
        answer = client.embeddings.create(model=EMBEDDING_MODEL, input=SENTENCES[:5])
        tokens = sum(len(tokenizer.encode(sentence).ids) for sentence in SENTENCES[:5])
        assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (tokens, tokens)
        assert answer.model == EMBEDDING_MODEL

    def test_an_input_longer_than_the_window_is_refused_and_not_cut_p2(
        self, client: openai.OpenAI
    ) -> None:
        fits = "a " * (WINDOW - 2)
        assert embed(client, fits).shape == (1, 384)
        with pytest.raises(openai.BadRequestError) as caught:
            embed(client, ["short", fits + "a"])
        assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "input[1]")
        assert f"maximum context length is {WINDOW} tokens" in caught.value.message

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"input": ""}, "invalid_value"),
            ({"input": [[30522]]}, "invalid_token_id"),
            ({"input": "a", "dimensions": 64}, "unsupported_parameter"),
            ({"input": "a", "extra_body": {"instruction": "find"}}, "unsupported_parameter"),
            ({"input": "a", "model": "nobody"}, "model_not_found"),
        ],
    )
    def test_a_refusal_has_its_code(
        self, client: openai.OpenAI, fields: dict[str, Any], code: str
    ) -> None:
        with pytest.raises(openai.APIStatusError) as caught:
            client.embeddings.create(**({"model": EMBEDDING_MODEL} | fields))
        assert caught.value.code == code

    def test_it_does_not_chat_and_says_so_among_the_models(
        self, client: openai.OpenAI, served: Serving
    ) -> None:
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(
                model=EMBEDDING_MODEL, messages=[{"role": "user", "content": "Hi"}]
            )
        assert caught.value.code == "unsupported_capability"
        rows = {row["id"]: row for row in served.get_json("/v1/models")["data"]}
        row = rows[EMBEDDING_MODEL]
        assert [name for name, can in row["capabilities"].items() if can] == ["embeddings"]
        assert (row["context_window"], row["gen_defaults"], row["current"]) == (WINDOW, None, False)
        assert row["size_bytes"] > 80_000_000


# What a machine that is busy with other things may take; how soon a row leaves is shown elsewhere.
SLOW_SECONDS = 120.0
LONG = {"model": EMBEDDING_MODEL, "input": ["a " * 200] * 400}


def post(served: Serving, body: Any) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=2 * SLOW_SECONDS)
    data = json.dumps(body).encode()
    connection.request("POST", "/v1/embeddings", data, {"Content-Type": "application/json"})
    return connection


# Before its load has begun.
NOT_YET = {"state": "none"}


def worker(served: Serving) -> Any:
    models: Sequence[Any] = served.get_json("/engine")["workers"]
    return next((model for model in models if model["id"] == EMBEDDING_MODEL), NOT_YET)


def is_running(served: Serving) -> bool:
    return served.metric("headrace_rows_running") > 0


class TestEnds:
    def test_a_client_that_leaves_ends_its_passes(self, served: Serving) -> None:
        connection = post(served, LONG)
        served.until(lambda: is_running(served), within=SLOW_SECONDS)
        connection.close()
        served.until(lambda: not is_running(served), within=SLOW_SECONDS)
        served.until(lambda: served.metric("headrace_leases") == 0, within=SLOW_SECONDS)
        assert served.metric("headrace_cancelled_total", reason="disconnect") == 1

    def test_a_worker_that_is_killed_is_told_to_its_client_and_starts_again(
        self, served: Serving, client: openai.OpenAI
    ) -> None:
        replies: list[tuple[int, Any]] = []

        def ask() -> None:
            connection = post(served, LONG)
            reply = connection.getresponse()
            replies.append((reply.status, json.loads(reply.read())))
            connection.close()

        asking = threading.Thread(target=ask)
        asking.start()
        served.until(lambda: is_running(served), within=SLOW_SECONDS)
        os.kill(worker(served)["pid"], signal.SIGKILL)
        asking.join(timeout=SLOW_SECONDS)
        ((status, body),) = replies
        assert (status, body["error"]["code"]) == (502, "engine_unavailable")
        assert body["error"]["details"] == {"state": "restarting"}
        assert embed(client, "again").shape == (1, 384)
        assert worker(served)["restarts"] == 1
