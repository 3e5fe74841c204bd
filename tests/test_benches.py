"""Each script of bench/ starts: it finds what it imports, and says what it can do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[1] / "bench"
SCRIPTS = sorted(p.name for p in BENCH.glob("*.py") if "ArgumentParser" in p.read_text("utf-8"))

# One process for all, as each would load MLX anew; what one imported from beside it is forgotten.
ASK_EACH = """
import contextlib, io, runpy, sys
from pathlib import Path

bench, *names = map(Path, sys.argv[1:])
sys.path.insert(0, str(bench))
for script in map(bench.joinpath, names):
    for name in [name for name in sys.modules if (bench / f"{name.split('.')[0]}.py").exists()]:
        del sys.modules[name]
    sys.argv = [str(script), "--help"]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        assert not end.code, script.name
    assert said.getvalue().startswith("usage:"), script.name
    print(script.name)
"""


def test_every_script_starts_and_tells_its_options() -> None:
    command = [sys.executable, "-c", ASK_EACH, str(BENCH), *SCRIPTS]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.split() == SCRIPTS
    assert "streams.py" in SCRIPTS
