"""Snapshots of the runtime, for the edge and for tests. Plain frozen values, never live state."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from headrace.actors.ledger import LedgerReport
from headrace.actors.spec import Role
from headrace.runtime.contracts import CancelReason, ModelInfo, Stage
from headrace.runtime.ports import CacheUse, Memory

# Wire contract 10.1: where a model stands, as a client may read it.
ModelState: TypeAlias = Literal[
    "never_loaded",
    "loading",
    "ready",
    "draining",
    "unloaded_by_request",
    "unloaded_idle",
    "evicted",
    "load_failed",
    "restarting",
    "crashed",
]


@attrs.frozen
class BatchReport:
    """Rows of one model. The three last are counters since the model's first load."""

    max_rows: int = 0
    running_rows: int = 0
    waiting_rows: int = 0
    submitted_rows: int = 0
    finished_rows: int = 0
    cancelled_rows: int = 0
    # Bytes of KV held by live rows, as allocated.
    kv_bytes: int = 0


@attrs.frozen
class WorkerReport:
    """What runs a model. `pid` is None without a process of its own; the exit is the last one,
    as a code or a signal number."""

    pid: int | None = None
    restarts: int = 0
    exit_code: int | None = None
    exit_signal: int | None = None


@attrs.frozen
class DecodeReport:
    """How fast a lone row decoded last; `at` is in seconds on the run's clock."""

    tokens_per_second: float
    at: float


@attrs.frozen
class ModelReport:
    """One model that is known to the runtime, resident or not."""

    id: str
    state: ModelState
    role: Role = "primary"
    # Of the model without its rows.
    bytes: int = 0
    pinned: bool = False
    # Died too often: refuses until it is loaded or unloaded by hand.
    exhausted: bool = False
    leases: int = 0
    # Seconds on the run's clock; None before the first lease.
    last_used_at: float | None = None
    info: ModelInfo | None = None
    batch: BatchReport = BatchReport()
    # Hits, misses and reused tokens are counted since the model's first load.
    cache: CacheUse = attrs.field(factory=CacheUse)
    memory: Memory | None = None
    worker: WorkerReport = WorkerReport()
    decoding: DecodeReport | None = None
    # Tokens of context for which there is memory when no other rows take any; None before
    # anything is known of the model.
    safe_context: int | None = None


@attrs.frozen
class RequestReport:
    """One live request; never any text."""

    id: str
    route: str
    model: str | None
    stage: Stage
    age_seconds: float
    prompt_tokens: int
    generated_tokens: int
    stream: bool
    # What the trace knows it by; requests that belong together have one id and a ticket each.
    ticket: str
    # Rows that it has in the batch, and the tokens that each of them may say.
    rows: int
    most_tokens: int | None


@attrs.frozen
class Statistics:
    """The whole runtime at one instant. Counters count from the start of the runtime."""

    requests_in_flight: int
    queue_depth: int
    rows_running: int
    leases: int
    kv_bytes: int
    prompt_tokens_total: int
    cached_tokens_total: int
    decoded_tokens_total: int
    cancelled_total: dict[CancelReason, int]
    models: tuple[ModelReport, ...]
    # Bytes that resident models may take.
    budget_bytes: int
    # What the machine's memory is taken for.
    ledger: LedgerReport
    # Id of the model that answers for the aliases; None before one was named or leased.
    current: str | None
    draining: bool
