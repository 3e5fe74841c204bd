"""The tutorial is true: its code, put into a stranger's folder, passes as it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "design" / "tutorial.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)


def test_its_tests_pass(tmp_path: Path) -> None:
    code = "\n\n".join(blocks("python"))
    (tmp_path / "test_agent.py").write_text(code)
    (tmp_path / "pytest.ini").write_text("".join(blocks("ini")))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert f"{code.count('def test_')} passed" in told.stdout
