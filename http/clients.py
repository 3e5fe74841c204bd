"""How many requests one client may have under way, so that none takes every place there is."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from headrace.runtime.errors import Code, RequestError

# Routes whose requests hold a row, or read a prompt; whoever has many may still look and cancel.
WORK = frozenset(
    {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/responses",
        "/v1/responses/input_tokens",
        "/v1/responses/compact",
        "/v1/embeddings",
        "/v1/decisions",
        "/v1/systemone",
    }
)
# Requests that the usual time of one is taken from, and the bounds of what is told of it.
REMEMBERED = 32
LEAST_SECONDS, MOST_SECONDS = 1.0, 120.0


def asks_for_work(method: str, route: str) -> bool:
    return method == "POST" and route in WORK


class ClientPlaces:
    """The places of each client by its name; `most` is 0 where there is no limit.

    A response that goes on in the background has given its place back.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()
        self._seconds: deque[float] = deque(maxlen=REMEMBERED)

    @contextmanager
    def place(self, client: str) -> Iterator[None]:
        """Raises `RequestError` (client_limit) with a time to try again."""
        if self._most and self._taken[client] >= self._most:
            text = f"This client has {self._most} requests under way already."
            raise RequestError(
                Code.CLIENT_LIMIT, text, retry_after_seconds=self._retry_after_seconds()
            )
        self._taken[client] += 1
        began = trio.current_time()
        try:
            yield
        finally:
            self._seconds.append(trio.current_time() - began)
            self._taken[client] -= 1
            # Nobody is remembered longer than its requests.
            if not self._taken[client]:
                del self._taken[client]

    def _retry_after_seconds(self) -> float:
        """One of the client's requests ends about so soon, as requests have taken of late."""
        mean = sum(self._seconds) / len(self._seconds) if self._seconds else 0.0
        return min(max(mean / self._most, LEAST_SECONDS), MOST_SECONDS)

    def __len__(self) -> int:
        return self._taken.total()

    def __repr__(self) -> str:
        return f"<ClientPlaces {len(self)} taken by {len(self._taken)}>"
