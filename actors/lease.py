"""A hold on a resident model: while it lives, the model is not evicted."""

from __future__ import annotations

import attrs

from headrace.actors.host import Host
from headrace.actors.messages import Ticket
from headrace.runtime.contracts import ModelInfo


@attrs.frozen
class Lease:
    """Granted by the registry, given back by leaving `Registry.lease`."""

    ticket: Ticket
    host: Host
    info: ModelInfo
