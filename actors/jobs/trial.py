"""Kinds for tests: one that does nothing for a while, and one that fails in every way there is."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import msgspec
import trio

from headrace.actors.jobs.child import run_child
from headrace.actors.jobs.job import Result
from headrace.actors.jobs.kind import JobContext, JobKind
from headrace.runtime.errors import Code, RequestError

OUTPUT = "lines.txt"


class NoopConfig(msgspec.Struct, forbid_unknown_fields=True):
    """`steps` lines, `seconds` apart, and a file of them at the end."""

    steps: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 3
    seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.0


class Noop(JobKind[NoopConfig]):
    name = "noop"
    listed = False
    config = NoopConfig

    async def run(self, context: JobContext[NoopConfig]) -> Result:
        steps = context.config.steps
        await context.stage("waiting", 0.0, f"{steps} steps")
        for step in range(1, steps + 1):
            await trio.sleep(context.config.seconds)
            await context.log(f"step {step}")
            context.progress(step / steps)
        lines = "".join(f"{step}\n" for step in range(1, steps + 1))
        await context.write(OUTPUT, lines.encode())
        await context.metric(steps=steps)
        return Result(OUTPUT, {"steps": steps})


class CrashConfig(msgspec.Struct, forbid_unknown_fields=True):
    how: Literal["exit", "signal", "raise", "refuse"] = "exit"


class Crash(JobKind[CrashConfig]):
    """With `exit` and `signal` in a process of its own, as heavy work is done."""

    name = "crash"
    listed = False
    config = CrashConfig

    async def run(self, context: JobContext[CrashConfig]) -> Result:
        await context.stage("crashing")
        how = context.config.how
        if how == "raise":
            raise ZeroDivisionError
        if how == "refuse":
            raise RequestError(Code.INVALID_VALUE, "This job always fails.")
        code = "raise SystemExit(3)" if how == "exit" else "import os; os.kill(os.getpid(), 9)"
        command = [sys.executable, "-c", code]
        await run_child(command, context.folder / "child.log", CrashConfig, lambda _: None)
        return Result()
