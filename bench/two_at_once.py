#!/usr/bin/env python3
"""Two models that are used at once, against one of them with the same load.

    python bench/two_at_once.py                              about 3 minutes

The second model is the default one under another name, so that its work is the same. So many
clients ask the one model, or half of them each; rounds alternate and change who goes first. What
counts is the median of the ratios of tokens per second.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from _second import default_folder
from mixed import Kinds, compared
from served import served, verdict

LEAST_RATIO = 0.95
SECOND = "the-other-model"


def same_again(folder: Path, parent: Path) -> Path:
    """A folder of another name with the same files."""
    second = parent / SECOND
    second.mkdir()
    for file in folder.iterdir():
        os.symlink(file.resolve(), second / file.name)
    return second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, default=8, help="clients in all")
    parser.add_argument("--max-tokens", type=int, default=40)
    options = parser.parse_args()
    first = default_folder()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as parent:
        second = same_again(first, Path(parent))
        with served(str(first), "--models", str(second)) as server:
            kinds: Kinds = {
                "one": lambda number: {"model": first.name},
                "both": lambda number: {"model": first.name if number % 2 else SECOND},
            }
            ratio = compared(server, kinds, options)
    verdict({f"two models reach {LEAST_RATIO} of one": ratio >= LEAST_RATIO})


if __name__ == "__main__":
    main()
