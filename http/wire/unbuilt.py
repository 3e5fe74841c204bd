"""What the contract promises and the engine cannot do yet: the one table of 501.

It speaks of requests and not of fields, so it holds for every protocol. Building one of these
means taking its line out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.runtime.contracts import InferenceRequest
from headrace.runtime.errors import Code, RequestError

# What asks for it, by the name that a client knows it by.
UNBUILT: dict[str, Callable[[InferenceRequest], bool]] = {
    "echo": lambda request: request.echo,
    "max_tokens": lambda request: request.max_tokens == 0,
}


def check_built(requests: Iterable[InferenceRequest]) -> None:
    """Raises `RequestError` (unsupported_execution) with all reasons, before anything is run."""
    reasons = {name: None for request in requests for name in _reasons(request)}
    if not reasons:
        return
    listed = list(reasons)
    raise RequestError(
        Code.UNSUPPORTED_EXECUTION,
        f"This version cannot do what is asked for in {', '.join(listed)}.",
        param=listed[0],
        details={"reasons": listed},
    )


def _reasons(request: InferenceRequest) -> list[str]:
    return [name for name, asks in UNBUILT.items() if asks(request)]
