"""The parts of the page that only compute: one run of `node --test`, where node is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "parts"
FILES = sorted(FOLDER.glob("*.test.mjs"))
CHECK = re.compile(r'^test\("', re.MULTILINE)
RUN_SECONDS = 250


def test_the_parts_compute_what_they_should() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    argv = [node, "--test", "--test-reporter=tap", *(file.name for file in FILES)]
    ran = subprocess.run(argv, cwd=FOLDER, capture_output=True, text=True, timeout=RUN_SECONDS)
    assert ran.returncode == 0, ran.stdout
    checks = sum(len(CHECK.findall(file.read_text(encoding="utf-8"))) for file in FILES)
    assert f"# pass {checks}\n" in ran.stdout
