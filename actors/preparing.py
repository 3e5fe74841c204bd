"""The Model actor's children that build prompts, so that no step waits for one."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio

from headrace.actors.answering import Built
from headrace.actors.building import Building
from headrace.actors.messages import Preparation, Prepare, Ticket
from headrace.actors.reading import BuiltReading
from headrace.actors.troubles import described, located
from headrace.runtime.contracts import InferenceRequest
from headrace.runtime.errors import Code, ErrorInfo, RequestError
from headrace.runtime.ports import LoadedModel
from headrace.runtime.thread import Thread
from headrace.runtime.trace import Trace


@attrs.frozen
class Ready:
    """A prompt is ready, or could not be built. Told by the actor's own child."""

    ticket: Ticket
    result: Built | BuiltReading | ErrorInfo


@attrs.frozen
class Threads:
    """Where a model's work runs: its engine's steps, its prompts, and what grammars need."""

    engine: Thread
    text: Thread
    spare: Thread


class Preparing:
    """Prompts are built on the text thread; what grammars need is made ready on the spare one."""

    def __init__(
        self,
        loaded: LoadedModel,
        threads: Threads,
        tell: Callable[[Ready], None],
        trace: Trace,
    ) -> None:
        self._building = Building(loaded.tokenizer, loaded.info)
        self._tokenizer = loaded.tokenizer
        self._text = threads.text
        self._spare = threads.spare
        self._tell = tell
        self._trace = trace
        # Grammars can be compiled without delay.
        self._warmed = trio.Event()

    async def warm(self) -> None:
        """Make ready for grammars beside all else: neither steps nor plain prompts wait for it."""
        try:
            await self._spare.run(self._tokenizer.warm)
        except Exception as error:
            # Whoever needs it is told what is wrong.
            self._trace.emit("model.not_warmed", error=described(error))
        self._warmed.set()

    async def build(self, message: Preparation) -> None:
        """Tells `Ready` when it is done; nothing is raised."""
        result: Built | BuiltReading | ErrorInfo
        if isinstance(message, Prepare) and _may_be_held(message.request):
            await self._warmed.wait()
        try:
            result = await self._text.run(self._building.build, message.request)
        except RequestError as error:
            result = error.info
        except Exception as error:
            self._trace.emit("model.build_failed", message.ticket, error=located(error))
            result = ErrorInfo(Code.INTERNAL_ERROR, "The prompt could not be built.")
        self._tell(Ready(message.ticket, result))


def _may_be_held(request: InferenceRequest) -> bool:
    """Whether its answers may have to follow a grammar."""
    return request.constraint is not None or request.tools is not None
