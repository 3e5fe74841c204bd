"""What the routes of one app share: the runtime, and how this server answers."""

from __future__ import annotations

import secrets
import socket
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import attrs

from headrace.actors.runtime import Runtime
from headrace.http.access import Policy
from headrace.http.assets import Asset, read_page
from headrace.http.batch_kind import Batch
from headrace.http.bodies import BodyLimits
from headrace.http.clients import ClientPlaces
from headrace.http.kept import Kept
from headrace.http.keys import keys_of, warn_of_readers
from headrace.http.live import LiveExchanges
from headrace.http.metrics import Metrics
from headrace.http.watch import Watch
from headrace.runtime.settings import Settings

if TYPE_CHECKING:
    from headrace.http.exchange import Exchange
    from headrace.http.spans import Spans

# (method, path pattern) of every route, in the order of the table.
Endpoints = tuple[tuple[str, str], ...]


@attrs.define(eq=False)
class Edge:
    """Made once per app and runtime; nothing in it outlives them."""

    runtime: Runtime
    endpoints: Endpoints
    policy: Policy
    body_limits: BodyLimits
    upload_limits: BodyLimits
    metrics: Metrics
    kept: Kept
    batches: Batch
    watch: Watch
    # The files of the web page, by name.
    page: dict[str, Asset]
    clients: ClientPlaces
    live: LiveExchanges = attrs.field(factory=LiveExchanges)
    # In Unix seconds.
    started_at: float = attrs.field(factory=time.time)
    # Where the setting `otel` is on.
    spans: Spans | None = None

    @classmethod
    def over(cls, runtime: Runtime, endpoints: Endpoints) -> Edge:
        settings = runtime.settings
        limits = BodyLimits(settings.max_body_bytes, settings.body_idle_s, settings.body_total_s)
        uploads = attrs.evolve(limits, most_bytes=settings.max_upload_bytes)
        kept = Kept(runtime.history)
        batches = Batch(kept, settings.batch_rows)
        runtime.jobs.register(batches)
        return cls(
            runtime,
            endpoints,
            policy_of(settings),
            limits,
            uploads,
            Metrics(runtime),
            kept,
            batches,
            Watch(runtime),
            read_page(),
            ClientPlaces(settings.max_requests_per_client),
        )

    @property
    def pools(self) -> bool:
        """Whether models that were made for text embed as well."""
        return self.runtime.settings.embedding_pooling != "none"

    def response_id(self, request_id: str) -> str | None:
        """Of a request that is being answered, or runs in the background."""
        return self.live.response_id(request_id) or self.kept.response_id(request_id)

    def spanned(self, exchange: Exchange) -> AbstractContextManager[None]:
        """The span of an exchange, where there are any."""
        return nullcontext() if self.spans is None else self.spans.exchange(exchange)

    def draw_seed(self) -> int:
        """Fresh entropy for a request that brought no seed."""
        return secrets.randbits(64)

    def draw_token(self) -> str:
        return secrets.token_hex(16)


def policy_of(settings: Settings) -> Policy:
    """Raises `SettingError` where the file of keys is not as it should be."""
    keys = keys_of(settings)
    warn_of_readers(settings)
    return Policy(
        bound_host=settings.host,
        machine_name=socket.gethostname().partition(".")[0],
        allowed_hosts=settings.allowed_hosts,
        allowed_origins=settings.allowed_origins,
        credentials=settings.cors_credentials,
        api_keys=keys,
        metrics_public=settings.metrics_public,
    )
