"""A server over a scripted model as a process of its own: commands and signals meet a real one.

    python -m headrace.runtime.testing.scripted_process HOME [KEY...]

It listens on a free port, keeps its run file in HOME, and lets in who has one of the keys.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.actors.provision import Provision
from headrace.actors.spec import ModelSpec
from headrace.http.commands.serve import Termination, serve_at
from headrace.runtime.settings import Settings
from headrace.runtime.testing.device import ScriptedDevice
from headrace.runtime.testing.loader import ScriptedLoader, ScriptedModel
from headrace.runtime.testing.script import Script
from headrace.runtime.testing.serving import Serving, listening_port, stop

# What a prompt with this word is answered; others get the alphabet, without end.
SAYS = {"greet": "Good day.", "colour": "\x1b[31mRed."}
BUDGET_BYTES = 1_000_000_000
# What has no end takes ten minutes to reach it, and commands may be slow to start.
WINDOW = 1 << 16
# Longer than any test takes to ask again, on whatever machine.
DRAIN_SECONDS = 120.0


@contextmanager
def scripted_serving(home: Path, *keys: str) -> Iterator[Serving]:
    """Such a server, which is stopped on the way out if it still runs."""
    command = [sys.executable, "-m", __name__, str(home), *keys]
    log = home / "log"
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink)
    try:
        yield Serving(process, listening_port(process, log), log)
    finally:
        stop(process)


def main(home: Path, keys: tuple[str, ...]) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    scripts = {word: Script(text) for word, text in SAYS.items()}
    model = ScriptedModel(scripts=scripts, load_seconds=0, context_window=WINDOW)
    # A step takes real time, as nothing else waits for it.
    loader = ScriptedLoader(model, device=ScriptedDevice(sleep=time.sleep))
    settings = Settings(
        port=0, home=home, api_keys=keys, in_process=True, shutdown_timeout_s=DRAIN_SECONDS
    )
    provision = Provision((ModelSpec(model.id, model.id, 1),), loader, BUDGET_BYTES)
    serve_at((), settings, provision, Termination())


if __name__ == "__main__":
    main(Path(sys.argv[1]), tuple(sys.argv[2:]))
