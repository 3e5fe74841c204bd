"""What every generating protocol offers to the routes: a parsed request and its two ways out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import attrs

from headrace.runtime.contracts import Event, InferenceRequest, Request


@attrs.frozen
class Stamp:
    """What the edge adds to a body: the protocols read no clock and draw no chance.

    `token` is 32 hex digits, fresh for each request; `seed` draws where the client gave none;
    `created` is in Unix seconds. `most_choices` is the largest `n`.
    """

    request_id: str
    token: str
    seed: int
    created: int
    route: str = ""
    most_choices: int = 16


@attrs.frozen
class SoFar:
    """What is known of a request before it has a row. `prompt_tokens` is 0 until it is counted."""

    model: str | None = None
    prompt_tokens: int = 0


class StreamWriter(Protocol):
    """Renders the events of one stream, in order, as bytes of its protocol."""

    def sign_of_life(self, so_far: SoFar) -> bytes:
        """What says that the stream lives while there is nothing to tell. It may come before
        anything else, and some protocols then begin with what they know."""

    def feed(self, event: Event) -> list[bytes]:
        """The frames that an event brings; none after the frames of an end."""


class Answerable(Protocol):
    """A request that has passed every check of its shape, and is answered whole."""

    @property
    def requests(self) -> tuple[Request, ...]: ...

    @property
    def response_id(self) -> str: ...

    @property
    def prompt_field(self) -> str:
        """The field that the prompt came in: what is wrong with a prompt is wrong with it."""

    def complete(self, events: Iterable[Event]) -> dict[str, Any]:
        """The whole answer. Raises `RequestError` if the events end with a failure."""


class Asked(Answerable, Protocol):
    """The same that can also be answered as a stream."""

    @property
    def requests(self) -> tuple[InferenceRequest, ...]:
        """One for each prompt, all alike but for the prompt. Their answers go into one response:
        the events that come back are those of all runs, merged (`merged.Merged`)."""

    def stream(self) -> StreamWriter: ...
