"""Install Python packages with uv, which takes seconds where pip takes a minute or two.

    python packaging/install.py ENVIRONMENT ARGUMENT...

The arguments are those that both know. uv is installed first, by the pip of the environment that
runs this, and asks where that pip would ask. Where it cannot be had, or fails, pip does it all.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

# Errors only.
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq"]
LOCK = Path(__file__).resolve().parent.parent / "requirements.lock"
# What pip calls a setting, and uv an option.
OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "constraint": "--constraints",
}


def settings_of_pip(told: str) -> dict[str, str]:
    """What `pip config list` tells, a line each as in `global.index-url='...'`.

    Variables come before files, and the section of `install` before what holds for all commands.
    """
    ranks = {"global": 0, "install": 1, ":env:": 2}
    found: dict[str, tuple[int, str]] = {}
    for line in told.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        rank = ranks.get(section, -1)
        if rank >= found.get(name, (0, ""))[0]:
            found[name] = (rank, "".join(shlex.split(value)))
    return {name: value for name, (_, value) in found.items()}


def uv_options(settings: Mapping[str, str]) -> list[str]:
    """The same places for uv. pip takes the best of all indexes, and so does uv if told to."""
    options = ["--index-strategy", "unsafe-best-match"]
    for name, option in OPTIONS.items():
        for value in settings.get(name, "").split():
            options += [option, value]
    return options


def uv_variables(settings: Mapping[str, str]) -> dict[str, str]:
    certificates = settings.get("cert")
    return {"SSL_CERT_FILE": certificates} if certificates else {}


def with_uv(environment: str, arguments: Iterable[str]) -> bool:
    if subprocess.run([*PIP, "install", "-c", LOCK, "uv"]).returncode:
        return False
    told = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True).stdout
    settings = settings_of_pip(told)
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet"]
    ran = subprocess.run(
        [*uv, "--python", environment, *uv_options(settings), *arguments],
        env=os.environ | uv_variables(settings),
    )
    return ran.returncode == 0


def main(environment: str, *arguments: str) -> int:
    if with_uv(environment, arguments):
        return 0
    sys.stderr.write("installing with pip, since uv did not\n")
    return subprocess.run([*PIP, "--python", environment, "install", *arguments]).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
