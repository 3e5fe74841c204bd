"""Who has which bytes of the machine's memory, as a pure state machine: events in, actions out.

Each model has an account: its weights, and an allotment that it spends by itself on the caches of
its rows, on computing them, and on kept prefixes. Only the model knows what a row needs next, and
only the ledger knows what the others have, so they talk in totals: the model reports what it uses
and wants, the ledger says how much it may use from now on.

Promises:

- Weights and allotments together never pass the limit. An allotment that was lowered counts in
  full until the model has said that it goes by the lower one.
- Nothing lies idle while somebody wants it: what others do not use is moved first, then what their
  kept prefixes take, and only for rows that have begun earlier the rows of others.
- Rows that are running go before loads, and loads and newcomers are served in order of arrival. Of
  models that cannot both go on, the one whose rows have run longer does, so somebody always does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import attrs

# More than any machine has; stands for no limit.
UNLIMITED_BYTES = 1 << 60


# ---- what models say ---------------------------------------------------------------------


@attrs.frozen
class Use:
    """What a model uses and wants, beside its weights. `rows_bytes` is what its rows cannot do
    without for their next step, `wanted_bytes` what it would use at once if it had it, and
    `taken_bytes` what its rows take already."""

    rows_bytes: int = 0
    wanted_bytes: int = 0
    taken_bytes: int = 0
    # Kept for rows that begin alike; first to give way.
    cache_bytes: int = 0
    # Of `rows_bytes`, what is for computing them.
    transient_bytes: int = 0
    # The number of the last allotment that it goes by.
    obeyed: int = 0
    # Counts how often it has stood still for want of memory.
    asked: int = 0
    # Requests that it holds back for want of memory.
    held_back: int = 0


# ---- actions -----------------------------------------------------------------------------


@attrs.frozen
class Allot:
    """From now on the model may use so many bytes. Also the answer to one that stands still: this
    is all there is for now. `most_bytes` is what it could have if nobody else used any."""

    model_id: str
    allotted_bytes: int
    most_bytes: int
    number: int


@attrs.frozen
class Start:
    """There is room for the model's weights: they are booked."""

    model_id: str


Action: TypeAlias = Allot | Start
Stage: TypeAlias = Literal["unused", "cache", "rows"]
STAGES: tuple[Stage, ...] = ("unused", "cache", "rows")


# ---- state -------------------------------------------------------------------------------


@attrs.define(eq=False)
class Account:
    """One model's part. `held_bytes` is what it may be using until it has obeyed."""

    model_id: str
    weights_bytes: int = 0
    # Waits for its weights' bytes since this turn; None: they are booked.
    loading: int | None = None
    loading_bytes: int = 0
    # Whether it runs, so that it takes allotments.
    open: bool = False
    allotted_bytes: int = 0
    held_bytes: int = 0
    number: int = 0
    use: Use = Use()
    # When its rows began, and since when it has held requests back, in turns.
    running_since: int | None = None
    waiting_since: int | None = None
    answered: int = 0
    # The model is to hear of its allotment if that is another than it was told last.
    news: bool = False
    told_bytes: int | None = None

    @property
    def short_bytes(self) -> int:
        """What its rows lack for their next step."""
        return max(0, self.use.rows_bytes - self.allotted_bytes)

    @property
    def wishes_bytes(self) -> int:
        return max(0, self.use.wanted_bytes - self.allotted_bytes)

    def floor_bytes(self, stage: Stage) -> int:
        """Down to what its allotment may be lowered."""
        match stage:
            case "unused":
                return self.use.rows_bytes + self.use.cache_bytes
            case "cache":
                return self.use.rows_bytes
            case "rows":
                return 0


@attrs.frozen
class LedgerReport:
    """All accounts together, in bytes. None is ever negative."""

    limit_bytes: int | None = None
    weights_bytes: int = 0
    # Allotted to models for rows and kept prefixes.
    allotted_bytes: int = 0
    # Of it, taken for the caches of rows, for computing them, and for kept prefixes.
    reserved_bytes: int = 0
    transient_bytes: int = 0
    cache_bytes: int = 0
    # Requests held back, and models that wait for room for their weights.
    held_back: int = 0
    loading: int = 0


class Ledger:
    """Books of one machine. Reports about models that are not open are ignored: they were on
    their way when it went."""

    def __init__(self, limit_bytes: int | None) -> None:
        self._limit_bytes = UNLIMITED_BYTES if limit_bytes is None else limit_bytes
        self._limited = limit_bytes is not None
        self._accounts: dict[str, Account] = {}
        self._turns = itertools.count(1)

    # ---- events ----------------------------------------------------------------------------

    def load(self, model_id: str, weights_bytes: int) -> list[Action]:
        """A model is to be loaded. `Start` follows, now or later, unless it is closed before."""
        if model_id in self._accounts:
            raise ValueError(f"{model_id} has an account")
        account = self._accounts[model_id] = Account(model_id, loading_bytes=weights_bytes)
        account.loading = next(self._turns)
        return self._plan()

    def open(self, model_id: str, weights_bytes: int) -> list[Action]:
        """The model runs, and takes so much. It gets what is free."""
        account = self._accounts.setdefault(model_id, Account(model_id))
        account.weights_bytes, account.loading = weights_bytes, None
        account.open = account.news = True
        account.allotted_bytes = account.held_bytes = max(0, self.free_bytes)
        return self._plan()

    def weigh(self, model_id: str, weights_bytes: int) -> list[Action]:
        """What the model itself takes was measured anew."""
        account = self._accounts.get(model_id)
        if account is None or account.loading is not None:
            return []
        account.weights_bytes = weights_bytes
        return self._plan()

    def report(self, model_id: str, use: Use) -> list[Action]:
        account = self._accounts.get(model_id)
        if account is None or not account.open:
            return []
        account.use = use
        if use.obeyed == account.number:
            account.held_bytes = max(account.allotted_bytes, use.taken_bytes + use.cache_bytes)
        turn = next(self._turns)
        account.running_since = _since(account.running_since, use.rows_bytes > 0, turn)
        account.waiting_since = _since(account.waiting_since, use.held_back > 0, turn)
        return self._plan()

    def close(self, model_id: str) -> list[Action]:
        """The model's memory is free, or its load was given up."""
        if self._accounts.pop(model_id, None) is None:
            return []
        return self._plan()

    # ---- what may be asked -----------------------------------------------------------------

    @property
    def free_bytes(self) -> int:
        """Bytes that nobody has; below zero after a model turned out larger than expected."""
        accounts = self._accounts.values()
        return self._limit_bytes - sum(a.weights_bytes + a.held_bytes for a in accounts)

    def most_bytes(self, model_id: str) -> int:
        """What the model's rows could have if no other had any."""
        account = self._accounts.get(model_id)
        others = sum(other.weights_bytes for other in self._accounts.values())
        pending = account.loading_bytes if account is not None and account.loading else 0
        return max(0, self._limit_bytes - others - pending)

    def rows_bytes(self, model_id: str) -> int:
        """What the model's rows were said to take."""
        account = self._accounts.get(model_id)
        return 0 if account is None else account.use.rows_bytes

    def reach_bytes(self, model_id: str) -> int:
        """What the model's rows could have as things stand: all but what other rows use."""
        others = (a for a in self._accounts.values() if a.model_id != model_id)
        return max(0, self.most_bytes(model_id) - sum(a.use.rows_bytes for a in others))

    def lone_bytes(self, weights_bytes: int) -> int:
        """What a model's rows could have if it were the only one."""
        return max(0, self._limit_bytes - weights_bytes)

    def admits(self, model_id: str) -> bool:
        """Whether a newcomer may be sent to the model: nobody waits there, and no load waits."""
        account = self._accounts.get(model_id)
        waits = account is not None and account.use.held_back > 0
        return not waits and all(a.loading is None for a in self._accounts.values())

    def snapshot(self) -> LedgerReport:
        accounts = self._accounts.values()
        transient_bytes = sum(account.use.transient_bytes for account in accounts)
        return LedgerReport(
            limit_bytes=self._limit_bytes if self._limited else None,
            weights_bytes=sum(account.weights_bytes for account in accounts),
            allotted_bytes=sum(account.held_bytes for account in accounts) if self._limited else 0,
            reserved_bytes=sum(a.use.rows_bytes for a in accounts) - transient_bytes,
            transient_bytes=transient_bytes,
            cache_bytes=sum(account.use.cache_bytes for account in accounts),
            held_back=sum(account.use.held_back for account in accounts),
            loading=sum(account.loading is not None for account in accounts),
        )

    # ---- the plan --------------------------------------------------------------------------

    def _plan(self) -> list[Action]:
        self._cover_deficit()
        started: list[Action] = []
        met = True
        for account in self._running():
            # What is free when an older one lacks some is spoken for.
            met = self._serve_rows(account, may_have_free=met) and met
        if met:
            started = self._serve_waiting()
        return [*started, *self._tell()]

    def _cover_deficit(self) -> None:
        deficit = -(self.free_bytes + self._coming_bytes())
        if deficit > 0:
            self._take(deficit, None, STAGES)

    def _serve_rows(self, account: Account, *, may_have_free: bool) -> bool:
        """Let running rows go on: from what is free, from others, or by their own youngest."""
        short = account.short_bytes
        if short == 0 or (may_have_free and self._give(account, short)):
            return True
        missing = short
        if may_have_free:
            missing -= self.free_bytes + self._coming_bytes(account)
            if missing > 0:
                missing -= self._take(missing, account, STAGES)
        if missing > 0 and account.use.asked > account.answered:
            account.news = True
        return False

    def _serve_waiting(self) -> list[Action]:
        """Loads and newcomers, the oldest first; who cannot be served keeps the others waiting."""
        started: list[Action] = []
        for account in sorted(self._accounts.values(), key=_waits_since):
            if account.loading is not None:
                if not self._make_room(account.loading_bytes, account):
                    break
                account.weights_bytes, account.loading = account.loading_bytes, None
                started.append(Start(account.model_id))
            elif account.wishes_bytes:
                if self._make_room(account.wishes_bytes, account):
                    self._give(account, self.free_bytes)
                elif account.waiting_since is not None:
                    break
        return started

    def _make_room(self, wanted_bytes: int, account: Account) -> bool:
        if wanted_bytes <= self.free_bytes:
            return True
        missing = wanted_bytes - self.free_bytes - self._coming_bytes(account)
        if missing > 0:
            self._take(missing, account, STAGES[:2])
        return False

    def _give(self, account: Account, count_bytes: int) -> bool:
        """Raise an allotment by so much, if that is free."""
        if count_bytes > self.free_bytes:
            return False
        account.allotted_bytes += count_bytes
        account.held_bytes = max(account.held_bytes, account.allotted_bytes)
        account.news = True
        return True

    def _take(self, missing: int, taker: Account | None, stages: Iterable[Stage]) -> int:
        """Lower the allotments of others. Answers how many bytes will come of it."""
        coming = 0
        for stage in stages:
            for donor in self._donors(taker, stage):
                if coming >= missing:
                    return coming
                spare = max(0, donor.allotted_bytes - self._floor(donor, taker, stage))
                # Half of what is unused moves at once, so that the next few rows need not ask.
                least = spare // 2 if stage == "unused" and taker is not None else 0
                given = max(min(spare, missing - coming), least)
                donor.allotted_bytes -= given
                donor.news = donor.news or given > 0
                coming += given
        return coming

    def _floor(self, donor: Account, taker: Account | None, stage: Stage) -> int:
        """What the donor keeps. Who has waited longer keeps what it is about to use, or two that
        wait would take it from each other again and again before either has used it."""
        floor = donor.floor_bytes(stage)
        if taker is None or taker.short_bytes or donor.waiting_since is None:
            return floor
        older = donor.waiting_since < _waits_since(taker)
        return max(floor, donor.use.wanted_bytes) if older else floor

    def _donors(self, taker: Account | None, stage: Stage) -> list[Account]:
        """The idle first, then those whose rows began last; rows only of those younger."""
        others = [a for a in self._accounts.values() if a is not taker and a.open]
        if stage == "rows" and taker is not None:
            since = taker.running_since or 0
            others = [a for a in others if a.running_since and a.running_since > since]
        return sorted(others, key=lambda a: -(a.running_since or UNLIMITED_BYTES))

    def _coming_bytes(self, waiter: Account | None = None) -> int:
        """What the lowered allotments of others will give back."""
        others = (account for account in self._accounts.values() if account is not waiter)
        return sum(max(0, account.held_bytes - account.allotted_bytes) for account in others)

    def _running(self) -> Iterator[Account]:
        running = (a for a in self._accounts.values() if a.running_since is not None)
        return iter(sorted(running, key=lambda a: a.running_since or 0))

    def _tell(self) -> list[Action]:
        told: list[Action] = []
        for account in self._accounts.values():
            news, account.news = account.news, False
            asks = account.use.asked > account.answered
            if news and account.open and (asks or account.allotted_bytes != account.told_bytes):
                account.number += 1
                account.told_bytes = account.allotted_bytes
                account.answered = account.use.asked
                most = self.most_bytes(account.model_id)
                told.append(Allot(account.model_id, account.allotted_bytes, most, account.number))
        return told

    def check_integrity(self) -> None:
        """For tests. Raises `AssertionError` where the books contradict each other."""
        for account in self._accounts.values():
            assert 0 <= account.allotted_bytes <= account.held_bytes, f"{account} has too much"
            assert account.open or account.held_bytes == 0, f"{account} is not there"

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{a.model_id} {a.weights_bytes}+{a.allotted_bytes}" for a in self._accounts.values()
        )
        return f"<Ledger {self._limit_bytes - self.free_bytes}/{self._limit_bytes} | {parts}>"


def _since(before: int | None, holds: bool, turn: int) -> int | None:
    if not holds:
        return None
    return turn if before is None else before


def _waits_since(account: Account) -> int:
    return account.loading or account.waiting_since or UNLIMITED_BYTES
