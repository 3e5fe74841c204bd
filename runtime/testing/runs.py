"""Runs of events as a runtime makes them, for whatever renders them: hypothesis strategies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from headrace.runtime.contracts import (
    Accepted,
    CallArguments,
    CallEnded,
    CallStarted,
    ChoiceEnded,
    Delta,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    ScoredToken,
    TokenLogprob,
    Usage,
)
from headrace.runtime.sink import joined

ACCEPTED = Accepted("m", 9, 50, "fp_0123456789ab")

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
names = st.from_regex(r"[A-Za-z0-9_.-]{1,12}", fullmatch=True)
logprobs = st.floats(max_value=0, allow_nan=False)


@st.composite
def runs(draw: st.DrawFn, *, n: int = 1, scored: bool = False, plain: bool = False) -> list[Event]:
    """A whole run: `n` answers that take turns, from Accepted to Finished.

    `scored` gives each token of the visible text its log-probability; `plain` answers are text
    alone, as those to a plain prompt are.
    """
    answers = [draw(answer(choice, scored=scored, plain=plain)) for choice in range(n)]
    order = draw(st.permutations([c for c, events in enumerate(answers) for _ in events]))
    left = [iter(events) for events in answers]
    events = [next(left[choice]) for choice in order]
    reason = next(event.reason for event in events if isinstance(event, ChoiceEnded))
    usage = Usage(9, draw(st.integers(0, 99)), reasoning_tokens=draw(st.integers(0, 9)))
    return [ACCEPTED, *events, Finished(reason, usage)]


@st.composite
def answer(draw: st.DrawFn, choice: int, *, scored: bool, plain: bool) -> list[Event]:
    """The events of one answer, each as small as it can be."""
    events: list[Event] = []
    calls = 0
    kinds = ["text"] if plain else ["text", "reasoning", "call"]
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=4)):
        if kind == "call":
            events += draw(_call(choice, calls))
            calls += 1
        elif kind == "reasoning":
            events += [ReasoningDelta(piece, 1, choice) for piece in draw(st.lists(texts))]
        else:
            events += draw(_said(choice, scored=scored))
    reasons: list[FinishReason] = ["length", "tool_calls" if calls else "stop"]
    cut = draw(st.booleans())
    if cut and events and isinstance(events[-1], CallEnded):
        events.pop()
    return [*events, ChoiceEnded(reasons[not cut], choice=choice)]


@st.composite
def _call(draw: st.DrawFn, choice: int, call: int) -> list[Event]:
    pieces = [CallArguments(call, piece, 1, choice) for piece in draw(st.lists(texts, max_size=3))]
    return [CallStarted(call, draw(names), choice), *pieces, CallEnded(call, choice)]


@st.composite
def _said(draw: st.DrawFn, choice: int, *, scored: bool) -> list[Event]:
    """Text in tokens of any bytes: a token is told with the text that it completes."""
    data = draw(texts).encode()
    borders = sorted(draw(st.sets(st.integers(1, len(data)), max_size=4)) | {len(data)})
    tokens = [data[a:b] for a, b in zip([0, *borders], borders, strict=False)]
    events: list[Event] = []
    for group in _whole(tokens):
        entries = tuple(draw(_scored(token)) for token in group) if scored else ()
        events.append(Delta(b"".join(group).decode(), len(group), choice, entries))
    return events


def _whole(tokens: Sequence[bytes]) -> Iterator[list[bytes]]:
    """The tokens in groups that end between characters."""
    group: list[bytes] = []
    for token in tokens:
        group.append(token)
        try:
            b"".join(group).decode()
        except UnicodeDecodeError:
            continue
        yield group
        group = []


@st.composite
def _scored(draw: st.DrawFn, token: bytes) -> ScoredToken:
    others = draw(st.lists(st.tuples(st.binary(max_size=3), logprobs), max_size=2))
    likeliest = sorted(others, key=lambda other: -other[1])
    return ScoredToken(
        TokenLogprob(token, draw(logprobs)), tuple(TokenLogprob(*other) for other in likeliest)
    )


@st.composite
def merging(draw: st.DrawFn, events: Sequence[Event]) -> list[Event]:
    """The same run as another reader may get it: pieces that piled up have merged."""
    read: list[Event] = []
    for event in events:
        may_merge: bool = draw(st.booleans())
        one = joined(read[-1], event) if read and may_merge else None
        if one is None:
            read.append(event)
        else:
            read[-1] = one
    return read
