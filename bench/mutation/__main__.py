"""Put faults into a copy of the tree, one after the other, and see that tests notice.

    make mutants ARGS="--only row --report build/mutants.md"

Each fault runs the few test files that ought to notice it, in one process, to the first failure.
Fails with exit code 1 if a fault was not noticed, or no longer fits its file.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias

import attrs
import pytest
from mutation.faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parent.parent.parent
PARTS = ("runtime", "actors", "http", "tests", "pyproject.toml")
# A fault that lets a test wait for ever has been noticed too.
SECONDS = 120
TEST_SECONDS = 40
# Plugins that take longer to load than a test file takes to run.
LEFT_OUT = (
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:schemathesis",
    "-p",
    "no:xdist",
)
# What all tests import, once for all of them: each fault is tested in a fork. Nothing of ours.
SHARED = ("hypothesis", "msgspec", "outcome", "quart_trio", "trio.testing")
Verdict: TypeAlias = Literal["noticed", "hung", "SURVIVED", "STALE", "UNSOUND", "BROKEN"]
# By pytest's exit code: a test failed, or a signal for its time limit ended the run.
VERDICTS: dict[int, Verdict] = {0: "SURVIVED", 1: "noticed", 2: "noticed", 124: "hung"}


@attrs.frozen
class Result:
    fault: Fault
    verdict: Verdict
    seconds: float
    # The test that failed first.
    by: str = ""

    @property
    def bad(self) -> bool:
        return self.verdict not in ("noticed", "hung")


@attrs.frozen
class Copy:
    """A copy of the tree in which tests can be run."""

    folder: Path

    @classmethod
    def of(cls, root: Path, folder: Path) -> Copy:
        for part in PARTS:
            source = root / part
            if source.is_dir():
                skipped = shutil.ignore_patterns("__pycache__", "node_modules")
                shutil.copytree(source, folder / part, symlinks=True, ignore=skipped)
            else:
                shutil.copy(source, folder / part)
        return cls(folder)

    def test(
        self, files: Iterable[str], seeds: int, *, first: bool = True
    ) -> tuple[int, list[str]]:
        """Exit code of pytest, and the tests that failed; code 124 where it took too long."""
        arguments = ["-q", "--tb=no", *LEFT_OUT, *(["-x"] * first)]
        arguments += ["--timeout", str(TEST_SECONDS), "-m", "not slow"]
        arguments += ["--explore-seeds", str(seeds), *files]
        with tempfile.NamedTemporaryFile() as output:
            child = os.fork()
            if not child:
                run_tests(self.folder, arguments, output.fileno())
            code = wait_for_child(child, SECONDS if first else math.inf)
            told = Path(output.name).read_text()
        failed = [line for line in told.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return code, [line.split(" ")[1] for line in failed]

    def unsound(self, faults: Iterable[Fault], seeds: int) -> set[str]:
        """Test files that fail without any fault."""
        files = sorted({file for fault in faults for file in fault.tests})
        _, failed = self.test(files, seeds, first=False)
        return {test.partition("::")[0] for test in failed}

    def judge(self, fault: Fault, seeds: int, unsound: set[str]) -> Result:
        if unsound.intersection(fault.tests):
            return Result(fault, "UNSOUND", 0.0)
        path = self.folder / fault.file
        text = path.read_text()
        if text.count(fault.old) != 1:
            return Result(fault, "STALE", 0.0)
        began = time.monotonic()
        path.write_text(text.replace(fault.old, fault.new))
        try:
            code, failed = self.test(fault.tests, seeds)
        finally:
            path.write_text(text)
        # A time limit may end a test in the middle of trio, which pytest then breaks over.
        verdict = VERDICTS.get(code, "hung" if failed else "BROKEN")
        return Result(fault, verdict, time.monotonic() - began, failed[0] if failed else "")


def run_tests(folder: Path, arguments: list[str], output: int) -> NoReturn:
    """In a child: pytest over the copy, with what it prints in a file."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(folder)
    sys.dont_write_bytecode = True
    # It links the packages under their import name, before any that is installed.
    sys.path.insert(0, str(folder / "tests" / "typing"))
    code = 3
    try:
        code = int(pytest.main(arguments))
    except BaseException:  # noqa: ASYNC103 - the child ends here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def wait_for_child(child: int, seconds: float) -> int:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 124


def wait_for(path: Path | None) -> None:
    """Others may ask for silence, by a file."""
    while path is not None and path.exists():
        time.sleep(5)


def run(copy: Copy, faults: list[Fault], options: argparse.Namespace) -> list[Result]:
    results = []
    wait_for(options.wait_while)
    unsound = set() if options.unchecked else copy.unsound(faults, options.seeds)
    for fault in faults:
        wait_for(options.wait_while)
        result = copy.judge(fault, options.seeds, unsound)
        print(f"{result.verdict:9} {result.seconds:5.1f} s  {fault.name}  {result.by}", flush=True)
        results.append(result)
    return results


def table(results: list[Result]) -> str:
    noticed = sum(not result.bad for result in results)
    rows = [
        f"| {r.fault.name} | `{r.fault.file}` | {r.verdict} | `{r.by.rpartition('/')[2]}` |"
        for r in results
    ]
    head = "| fault | file | | first failing test |\n|---|---|---|---|"
    return f"{noticed} of {len(results)} faults were noticed.\n\n{head}\n" + "\n".join(rows) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="faults with this in their name or file")
    parser.add_argument("--first", type=int, default=0, help="begin with this one of the list")
    parser.add_argument("--seeds", type=int, default=15, help="for the explored tests")
    parser.add_argument("--unchecked", action="store_true", help="take the tests to be sound")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--wait-while", type=Path, metavar="FILE", help="wait while it exists")
    options = parser.parse_args()
    wanted = options.only or ""
    listed = FAULTS[options.first :]
    faults = [fault for fault in listed if wanted in fault.name or wanted in fault.file]
    for module in SHARED:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy.of(ROOT, Path(folder))
        results = run(copy, faults, options)
    if options.report:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(table(results))
    bad = [result for result in results if result.bad]
    print(f"{len(results) - len(bad)} of {len(results)} faults were noticed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
