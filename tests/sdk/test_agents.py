"""One loop of an agent through each of the frameworks that people build agents with.

A tool is really called, its result goes back, and an answer comes. Each loop is a program of its
own in `loops/`, in an environment of its own: frameworks do not agree on what they need.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from headrace.runtime.testing.serving import Serving

# How each program ended: its exit code, what it printed, and what it complained of.
Ends: TypeAlias = Mapping[str, tuple[int, str, str]]

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent.parent / "build" / "clients"
# Each loop, and the environment that it runs in.
LOOPS = {
    "langchain": "agents",
    "litellm": "agents",
    "pydantic_ai": "agents",
    "instructor": "instructor",
}
RUN_SECONDS = 280

# The first loop waits for all of them. `make agents` runs them.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
# Nothing may be looked up or reported elsewhere.
QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false"}


def python_of(loop: str) -> Path:
    return ENVIRONMENTS / LOOPS[loop] / "bin" / "python"


@pytest.fixture(scope="module")
def installed() -> None:
    if not all(python_of(loop).exists() for loop in LOOPS):
        pytest.skip("the frameworks are not installed: `make agents` does it")


@pytest.fixture(scope="module")
def ends(installed: None, served: Serving) -> Ends:
    """All of them at once, as they would come: the server answers them in one batch."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(ENVIRONMENTS)} | QUIET
    with ExitStack() as running:
        started: dict[str, subprocess.Popen[str]] = {}
        for loop in LOOPS:
            process = subprocess.Popen(
                [python_of(loop), HERE / "loops" / f"{loop}_loop.py", f"{served.base_url}/v1"],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            running.callback(process.kill)
            started[loop] = running.enter_context(process)
        return {loop: end_of(process) for loop, process in started.items()}


def end_of(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    said, complained = process.communicate(timeout=RUN_SECONDS)
    return process.returncode, said, complained


@pytest.mark.parametrize("loop", LOOPS)
def test_a_tool_is_called_and_an_answer_comes(loop: str, ends: Ends) -> None:
    code, said, complained = ends[loop]
    assert code == 0, complained
    told: dict[str, Any] = json.loads(said.splitlines()[-1])
    assert set(told["asked"]) <= {"Oslo", "Rome"}
    assert len(told["asked"]) == 1
    assert told["tokens"] > 0


def test_nothing_is_left_of_any_of_them(ends: Ends, nothing_left: Serving) -> None:
    assert nothing_left.faults() == []
