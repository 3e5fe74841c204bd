"""Faults made by hand, each of which must make at least one test fail.

A fault is a piece of a file and what stands in its place. The tests named beside it are those that
ought to notice; the runner asks no others.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Fault:
    """`old` occurs once in `file`."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


ACTOR = ("tests/runtime/test_actor.py",)
SINK = ("tests/runtime/test_sink.py",)
LINK = ("tests/runtime/test_link.py",)
FRAMES = ("tests/runtime/test_frames.py",)
THREAD = ("tests/runtime/test_thread.py",)
CANCEL = ("tests/actors/test_cancellation.py",)
SWEEP = ("tests/actors/test_cancel_sweep.py",)
FAILURES = ("tests/actors/test_failures.py",)
QUEUE = ("tests/actors/test_queue.py",)
WAITLIST = ("tests/actors/test_waitlist.py",)
DRAIN = ("tests/actors/test_drain.py",)
READING = ("tests/actors/test_reading.py", "tests/actors/test_cancellation.py")
LIFECYCLE = ("tests/actors/test_lifecycle.py",)
EXPLORED = ("tests/actors/test_schedules.py",)
KEPT = ("tests/actors/test_nothing_kept.py",)
RESIDENCY = ("tests/actors/test_residency.py", "tests/actors/test_residency_histories.py")
ENGINE = ("tests/runtime/test_testing_engine.py", "tests/actors/test_failures.py")
SUSPENSION = ("tests/actors/test_suspension.py",)
RATIONED = ("tests/actors/test_rations.py",)
RETURNED = ("tests/actors/test_returning.py",)
READ = ("tests/engine/test_reading.py",)
DISK = ("tests/engine/test_disk.py",)

KERNEL = (
    Fault(
        "a question to a dead actor is swallowed",
        "runtime/actor.py",
        "ClosedResourceError):\n            fail_reply(message, self.name)",
        "ClosedResourceError):\n            pass",
        ACTOR,
    ),
    Fault(
        "a release is told and not waited for",
        "runtime/actor.py",
        "suppress(ActorDied):\n            await reply.wait()",
        "suppress(ActorDied):\n            await trio.lowlevel.checkpoint()",
        ACTOR,
    ),
    Fault(
        "the wait for a release is not shielded",
        "runtime/actor.py",
        "with bounded_cleanup(CONCLUDE_SECONDS)",
        "with trio.move_on_after(CONCLUDE_SECONDS)",
        ACTOR,
    ),
    Fault(
        "an actor that goes forgets what it was asked",
        "runtime/actor.py",
        "for message in pending:\n            fail_reply(message, self.name)",
        "pending.clear()",
        ACTOR,
    ),
    Fault(
        "an actor that goes forgets what it owes",
        "runtime/actor.py",
        "        self.abandon()\n",
        "        pass\n",
        ACTOR,
    ),
    Fault(
        "the message that crashed an actor gets no answer",
        "runtime/actor.py",
        "except BaseException:\n            fail_reply(message, self.name)\n            raise",
        "except BaseException:\n            raise",
        ACTOR,
    ),
    Fault(
        "the last answer wins",
        "runtime/reply.py",
        "        if self._outcome is None:\n            self._outcome = result",
        "        if result is not None:\n            self._outcome = result",
        ("tests/runtime/test_reply.py",),
    ),
    Fault(
        "a stream goes on after its end",
        "runtime/sink.py",
        "        if self.end is not None:\n            return\n",
        "",
        SINK,
    ),
    Fault(
        "an event is taken before a wait",
        "runtime/sink.py",
        "        event = self._events.popleft()\n",
        "        event = self._events.popleft()\n        await trio.lowlevel.checkpoint()\n",
        SINK,
    ),
    Fault(
        "pieces of two choices are joined",
        "runtime/sink.py",
        "case Delta(), Delta() if last.choice == event.choice:",
        "case Delta(), Delta():",
        SINK,
    ),
    Fault(
        "a reader who reads still counts as stalled",
        "runtime/sink.py",
        "        self.unread_since = trio.current_time() if self._events else None\n",
        "",
        (*SINK, *READING),
    ),
    Fault(
        "a clean-up is not shielded",
        "runtime/cleanup.py",
        "trio.move_on_after(seconds, shield=True)",
        "trio.move_on_after(seconds)",
        ("tests/runtime/test_cleanup.py",),
    ),
    Fault(
        "a child's cancellation is taken for a failure",
        "runtime/supervisor.py",
        "            raise cancelled from None\n",
        "            return outcome.Error(group)\n",
        ("tests/runtime/test_supervisor.py",),
    ),
    Fault(
        "one restart too many",
        "runtime/restart.py",
        "recent >= self._limit",
        "recent > self._limit",
        ("tests/runtime/test_restart.py",),
    ),
    Fault(
        "the first restart waits",
        "runtime/restart.py",
        "        if recent == 0:\n            return 0.0\n",
        "",
        ("tests/runtime/test_restart.py",),
    ),
    Fault(
        "a thread keeps its last result alive",
        "runtime/thread.py",
        "            del call, fn, args, reply, result\n",
        "",
        THREAD,
    ),
    Fault(
        "a link queues without bound",
        "runtime/link.py",
        "        if self._backlog_bytes + len(frame) > self._max_backlog_bytes:",
        "        if self._backlog_bytes < 0:",
        LINK,
    ),
    Fault(
        "what a link has sent still counts as queued",
        "runtime/link.py",
        "            self._backlog_bytes -= len(frames)\n",
        "",
        LINK,
    ),
    Fault(
        "garbage is taken for the length of a frame",
        "runtime/frames.py",
        "        if length > self._max_bytes:\n",
        "        if length < 0:\n",
        FRAMES,
    ),
    Fault(
        "a frame waits for the first byte of the next",
        "runtime/frames.py",
        "        if len(self._buffer) < end:",
        "        if len(self._buffer) <= end:",
        FRAMES,
    ),
)

STAGES = (
    Fault(
        "a request does not wait for its row's end",
        "actors/host.py",
        "            if not seat.gone:\n                with bounded_cleanup",
        "            if False:\n                with bounded_cleanup",
        LIFECYCLE,
    ),
    Fault(
        "a request that is left does not cancel its row",
        "actors/host.py",
        "            seat.leave()\n            if not seat.gone",
        "            if not seat.gone",
        CANCEL,
    ),
    Fault(
        "a dead model's requests are not told",
        "actors/host.py",
        "            seat.fail(error)",
        "            pass",
        FAILURES,
    ),
    Fault(
        "a dead model's stream has no end",
        "actors/host.py",
        "        self._on_event(Failed(error))\n        self._ended.set()",
        "        self._ended.set()",
        FAILURES,
    ),
    Fault(
        "a seat is kept after its request",
        "actors/host.py",
        "            del self._seats[ticket]\n",
        "            pass\n",
        (*KEPT, "tests/actors/test_exploration.py"),
    ),
    Fault(
        "a place is not given back",
        "actors/waitlist.py",
        "            self._entered.discard(ticket)\n            self._line =",
        "            self._line =",
        WAITLIST,
    ),
    Fault(
        "one place too many",
        "actors/waitlist.py",
        "len(self._sizes) >= self._places",
        "len(self._sizes) > self._places",
        WAITLIST,
    ),
    Fault(
        "one row too many",
        "actors/waitlist.py",
        "<= self._max_rows\n",
        "<= self._max_rows + 1\n",
        WAITLIST,
    ),
    Fault(
        "who is ready first goes first",
        "actors/waitlist.py",
        "            bisect.insort(self._line, ticket, key=self._order)",
        "            self._line.append(ticket)",
        WAITLIST,
    ),
    Fault(
        "who has left still stands in line",
        "actors/waitlist.py",
        "            self._line = [other for other in self._line if other != ticket]\n",
        "",
        WAITLIST,
    ),
    Fault(
        "leaving the stage is not confirmed",
        "actors/admission.py",
        "            await self.ref.conclude(_Leave(ticket, done), done)",
        "            self.ref.tell(_Leave(ticket, done))",
        SWEEP,
    ),
    Fault(
        "a plan can be used twice",
        "actors/admission.py",
        "        if self._taken:\n",
        "        if self._max_tokens < 0:\n",
        QUEUE,
    ),
    Fault(
        "a drain lets newcomers in",
        "actors/admission.py",
        "        if self._closed is not None:\n",
        "        if self._closed is not None and message is None:\n",
        DRAIN,
    ),
    Fault(
        "a lease is not given back",
        "actors/registry.py",
        "                return self._residency.release(ticket, now)\n",
        "                return []\n",
        SWEEP,
    ),
    Fault(
        "giving back a lease is not confirmed",
        "actors/registry.py",
        "            await self.ref.conclude(_Release(ticket, done), done)",
        "            self.ref.tell(_Release(ticket, done))",
        EXPLORED,
    ),
    Fault(
        "who was granted a dead model waits for ever",
        "actors/registry.py",
        "            if ticket in self._replies:  # it may have left meanwhile\n",
        "            if ticket in ():\n",
        (*EXPLORED, "tests/actors/test_failures.py"),
    ),
    Fault(
        "who waits for an unload is never told",
        "actors/registry.py",
        "in self._leavers.pop(news.model_id, []):\n                reply.set(None)",
        "in ():\n                reply.set(None)",
        ("tests/actors/test_models.py", *EXPLORED),
    ),
    Fault(
        "requests are not told that their model is gone",
        "actors/lives.py",
        "            host.close(parting)\n",
        "            pass\n",
        ("tests/actors/test_lives.py",),
    ),
    Fault(
        "a life that has ended is never forgotten",
        "actors/lives.py",
        "            del self._stops[spec.id]\n",
        "            pass\n",
        FAILURES,
    ),
)

MODEL = (
    Fault(
        "a cancel of a running row is swallowed",
        "actors/model.py",
        "choice in row.choices):\n            self._leave(row)\n        else:",
        "choice in row.choices):\n            pass\n        else:",
        CANCEL,
    ),
    Fault(
        "a cancelled row is said to be gone while it still runs",
        "actors/model.py",
        "choice in row.choices):\n            self._leave(row)\n        else:",
        "choice in row.choices):\n            self._leave(row)\n            self._end(row)\n"
        "        else:",
        CANCEL,
    ),
    Fault(
        "a row leaves one step late",
        "actors/model.py",
        "        if self._leaving:\n            await self._let_leave()",
        '        if self._leaving and self.__dict__.setdefault("late", []) != self._leaving:\n'
        "            self.late = list(self._leaving)\n"
        "        elif self._leaving:\n            await self._let_leave()",
        CANCEL,
    ),
    Fault(
        "an end is told twice",
        "actors/model.py",
        "        self._emit(row, Ended(row.sampled))",
        "        self._emit(row, Ended(row.sampled))\n        self._emit(row, Ended(row.sampled))",
        LIFECYCLE,
    ),
    Fault(
        "no watchdog looks at a step",
        "actors/model.py",
        "        with trio.move_on_after(self._step_seconds):",
        "        with trio.move_on_after(math.inf):",
        FAILURES,
    ),
    Fault(
        "a row that was suspended goes on under its old number",
        "actors/model.py",
        "[renumbered(spec, fresh, forced) for spec in specs])\n",
        "specs)\n",
        SUSPENSION,
    ),
    Fault(
        "what comes during a step is taken after it",
        "actors/model.py",
        "            self._builders.start_soon(self._listen)\n",
        "",
        (*CANCEL, *LIFECYCLE),
    ),
    Fault(
        "a row that fails is told so and left in the batch",
        "actors/model.py",
        'ErrorInfo(Code.GENERATION_FAILED, "The generation failed.")))\n        self._leave(row)',
        'ErrorInfo(Code.GENERATION_FAILED, "The generation failed.")))',
        FAILURES,
    ),
    Fault(
        "rows that failed are stepped again",
        "actors/batch.py",
        "            self._forget(failure.row)",
        "            pass",
        FAILURES,
    ),
    Fault(
        "a row that leaves keeps its KV",
        "actors/batch.py",
        "            self._engine.remove(row)\n            self._forget(row)",
        "            self._forget(row)",
        CANCEL,
    ),
    Fault(
        "further choices never begin",
        "actors/batch.py",
        "                self._decoding.update((row, *siblings))",
        "                self._decoding.add(row)",
        ("tests/actors/test_neighbours.py", "tests/actors/test_answering.py"),
    ),
)

SCOPES = (
    Fault(
        "a request's scope does not wait for its stages",
        "actors/runtime.py",
        "                await generation.released.wait()\n            self._finish",
        "                await trio.lowlevel.checkpoint()\n            self._finish",
        SWEEP,
    ),
    Fault(
        "a request that is over still counts",
        "actors/runtime.py",
        "        del self._live[generation.ticket]\n",
        "",
        CANCEL,
    ),
    Fault(
        "a drain is forgotten",
        "actors/runtime.py",
        "        self._admission.ref.tell(CloseToNew(Code.DRAINING))\n",
        "",
        DRAIN,
    ),
    Fault(
        "a cancel ends the stream and not the stages",
        "actors/generation.py",
        "        self.scope.cancel()\n",
        "",
        CANCEL,
    ),
    Fault(
        "a cancel after the end changes how it ended",
        "actors/generation.py",
        "        if self._sink.end is None:\n            self.cancelled = reason",
        "        if reason:\n            self.cancelled = reason",
        CANCEL,
    ),
    Fault(
        "a reader who stalls is not told so",
        "actors/scope.py",
        "        if generation.stall.cancelled_caught:\n",
        "        if generation.stall is None:\n",
        READING,
    ),
    Fault(
        "the limit of the queue goes on while the row runs",
        "actors/together.py",
        "            scope.deadline = math.inf\n",
        "            pass\n",
        QUEUE,
    ),
    Fault(
        "stages that are over are not said to be",
        "actors/scope.py",
        "        generation.put(Failed(CLOSING))\n        generation.release()",
        "        generation.put(Failed(CLOSING))",
        CANCEL,
    ),
)

RATIONS = (
    Fault(
        "the oldest gives way",
        "actors/rations.py",
        "        return claims[max(claims)] if claims else None\n",
        "        return claims[min(claims)] if claims else None\n",
        RATIONED,
    ),
    Fault(
        "who gave way goes to the end of the line",
        "actors/rations.py",
        "        bisect.insort(self._line, claim, key=lambda other: other.turn)\n",
        "        self._line.append(claim)\n",
        RATIONED,
    ),
    Fault(
        "rows step with less memory than they need",
        "actors/rations.py",
        "            if needed <= self.allotted_bytes:\n",
        "            if needed <= self.allotted_bytes + 8:\n",
        RATIONED,
    ),
    Fault(
        "a row that goes on has said nothing yet",
        "actors/engine/rows.py",
        "            resumed=self.given,\n",
        "            resumed=0,\n",
        ("tests/engine/test_suspending.py",),
    ),
    Fault(
        "copies of the state are not counted",
        "actors/rations.py",
        "        return max(decode, prefill + branches)\n",
        "        return max(decode, prefill)\n",
        RATIONED,
    ),
)

RETURNING = (
    Fault(
        "all are told to come back at one time",
        "actors/returning.py",
        "        seconds = max(low, MARGIN * expected_seconds, after_last - now)\n",
        "        seconds = max(low, MARGIN * expected_seconds)\n",
        RETURNED,
    ),
    Fault(
        "a promise is kept twice",
        "actors/returning.py",
        "            self._due.popleft()\n            return True\n",
        "            return True\n",
        RETURNED,
    ),
    Fault(
        "who comes back finds the line full",
        "actors/waitlist.py",
        "self._queue_limit if self._returning.keep(now) else 0\n",
        "0 if self._returning.keep(now) else 0\n",
        RETURNED,
    ),
)

ENGINES = (
    Fault(
        "labels are read behind the padding",
        "actors/engine/continuing.py",
        "        logits[index, len(row.tokens) - 1 - head][",
        "        logits[index, -1][",
        READ,
    ),
    Fault(
        "answers come in the order of their lengths",
        "actors/engine/continuing.py",
        "for index in sorted(self._logits))",
        "for index in self._logits)",
        READ,
    ),
    Fault(
        "a question begins where the state does",
        "actors/engine/branches.py",
        "        self.offset = context.offset\n",
        "        self.offset = 0\n",
        READ,
    ),
    Fault(
        "a question that was computed in parts stays in the state",
        "actors/engine/continuing.py",
        "                layer.trim(len(more.tokens))\n",
        "                pass\n",
        READ,
    ),
    Fault(
        "a damaged file is used",
        "actors/engine/disk.py",
        "            if _checksum(path) != _stated_checksum(path):\n",
        "            if path is None:\n",
        DISK,
    ),
    Fault(
        "the file of another model is used",
        "actors/engine/disk.py",
        """ or told.get("fingerprint") != self._fingerprint:\n""",
        ":\n",
        DISK,
    ),
    Fault(
        "what is being written takes no room",
        "actors/engine/disk.py",
        "self.index.make_room(nbytes + sum(self._writing.values()))",
        "self.index.make_room(nbytes)",
        DISK,
    ),
    Fault(
        "files that have to go stay",
        "actors/engine/disk.py",
        "        for path in gone:\n            path.unlink(missing_ok=True)\n",
        "",
        DISK,
    ),
)

FAULTS = (*KERNEL, *STAGES, *MODEL, *SCOPES, *RATIONS, *RETURNING, *ENGINES)
