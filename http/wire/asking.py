"""What every generating protocol offers to the routes: a parsed request and its two ways out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import attrs

from headrace.runtime.contracts import Event, InferenceRequest


@attrs.frozen
class Stamp:
    """What the edge adds to a body: the protocols read no clock and draw no chance.

    `token` is 32 hex digits, fresh for each request; `seed` draws where the client gave none;
    `created` is in Unix seconds. `most_choices` is the largest `n`; `thinks` is for requests that
    do not say, and None leaves it to the model.
    """

    request_id: str
    token: str
    seed: int
    created: int
    route: str = ""
    most_choices: int = 16
    thinks: bool | None = None


class StreamWriter(Protocol):
    """Renders the events of one stream, in order, as bytes of its protocol."""

    @property
    def keep_alive(self) -> bytes:
        """What says that the stream lives while there is nothing to tell."""

    def feed(self, event: Event) -> list[bytes]:
        """The frames that an event brings; none after the frames of an end."""


class Asked(Protocol):
    """A request that has passed every check of its shape."""

    @property
    def requests(self) -> tuple[InferenceRequest, ...]:
        """One for each prompt, all alike but for the prompt. Their answers go into one response:
        the events that come back are those of all runs, merged (`merged.Merged`)."""

    @property
    def response_id(self) -> str: ...

    @property
    def prompt_field(self) -> str:
        """The field that the prompt came in: what is wrong with a prompt is wrong with it."""

    def stream(self) -> StreamWriter: ...

    def complete(self, events: Iterable[Event]) -> dict[str, Any]:
        """The whole answer. Raises `RequestError` if the events end with a failure."""
