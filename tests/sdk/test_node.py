"""The official Node clients against the real server: one run of `node --test`, told check by check.

The Python clients ask the default model for the same things. The checks stand in `node/*.test.mjs`;
`make` installs their packages from the lock file there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree

import pytest

from headrace.runtime.testing.serving import Serving

# What went wrong in a check, by its name; empty where nothing did.
Outcomes: TypeAlias = Mapping[str, str]

FOLDER = Path(__file__).parent / "node"
FILES = sorted(FOLDER.glob("*.test.mjs"))
CHECK = re.compile(r'^ *test\("([^"]+)"', re.MULTILINE)
CHECKS = [name for file in FILES for name in CHECK.findall(file.read_text(encoding="utf-8"))]
# Files that run beside each other; the server answers them in one batch.
FILES_AT_ONCE = 3
RUN_SECONDS = 560

# The first check waits for the whole run.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def served(served_small: Serving) -> Serving:
    """What these clients look at is the form of what comes."""
    return served_small


@pytest.fixture(scope="module")
def node() -> str:
    """The program, where it and the packages of the checks are installed."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed")
    if not (FOLDER / "node_modules").is_dir():
        pytest.skip("the packages of tests/sdk/node are not installed: `make clients` does it")
    return found


@pytest.fixture(scope="module")
def outcomes(node: str, served: Serving) -> Outcomes:
    ran = subprocess.run(
        [
            *(node, "--test", f"--test-concurrency={FILES_AT_ONCE}", "--test-reporter=junit"),
            *(file.name for file in FILES),
        ],
        cwd=FOLDER,
        env=os.environ | {"SERVED_URL": served.base_url},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    told = ElementTree.fromstring(ran.stdout)
    return {case.attrib["name"]: failure_of(case) for case in told.iter("testcase")}


def failure_of(case: ElementTree.Element) -> str:
    failure = case.find("failure")
    return "" if failure is None else (failure.text or failure.get("message") or "it failed")


@pytest.mark.parametrize("check", CHECKS)
def test_the_client_finds(check: str, outcomes: Outcomes) -> None:
    assert outcomes.get(check, "it was not run") == ""


def test_every_check_is_told(outcomes: Outcomes) -> None:
    assert sorted(outcomes) == sorted(CHECKS)
    assert len(set(CHECKS)) == len(CHECKS)


def test_nothing_is_left_of_any_of_them(outcomes: Outcomes, nothing_left: Serving) -> None:
    assert nothing_left.faults() == []
