"""Explore the small scenarios with several processes, and say how fast it went.

    python -m headrace.runtime.testing.exploring --seeds 1000000

The schedules are shared among the scenarios, parts of a runtime getting more than whole ones, and
among the processes. The first failure ends it, with the line that plays it again and exit code 1.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from headrace.runtime.testing.scenarios import PARTS, SCENARIOS
from headrace.runtime.testing.schedule import ScheduleFailed, explore

# Schedules that a process runs between two words about it.
PORTION = 500
# How many schedules of a part are run for each of a whole runtime: they take so much less time.
PART_WEIGHT = 8


@attrs.frozen
class Portion:
    scenario: str
    first: int
    count: int


@attrs.frozen
class Told:
    """What came of a portion; `failure` is empty where nothing failed."""

    portion: Portion
    most_choices: int
    cpu_seconds: float
    failure: str = ""


def run(portion: Portion) -> Told:
    began = time.process_time()
    seeds = range(portion.first, portion.first + portion.count)
    try:
        most = explore(SCENARIOS[portion.scenario], seeds).most_choices
    except ScheduleFailed as failure:
        return Told(portion, 0, time.process_time() - began, f"{portion.scenario}: {failure}")
    return Told(portion, most, time.process_time() - began)


def shares(names: Sequence[str], seeds: int) -> dict[str, int]:
    """How many schedules of each scenario make up so many in all."""
    parts = {scenario.__name__ for scenario in PARTS}
    weights = {name: PART_WEIGHT if name in parts else 1 for name in names}
    whole = sum(weights.values())
    counts = {name: seeds * weight // whole for name, weight in weights.items()}
    counts[names[0]] += seeds - sum(counts.values())
    return counts


def portions(counts: Mapping[str, int], first: int) -> Iterator[Portion]:
    """Small portions of all scenarios in turn."""
    done = dict.fromkeys(counts, 0)
    while any(done[name] < counts[name] for name in counts):
        for name, count in counts.items():
            portion = min(PORTION, count - done[name])
            if portion:
                yield Portion(name, first + done[name], portion)
                done[name] += portion


def explore_all(names: Sequence[str], seeds: int, first: int, processes: int) -> list[Told]:
    """Until all is done, or something fails."""
    told: list[Told] = []
    began = time.perf_counter()
    shown = 0.0
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for one in pool.imap_unordered(run, portions(shares(names, seeds), first)):
            told.append(one)
            done, seconds = sum(t.portion.count for t in told), time.perf_counter() - began
            if seconds - shown > 10:
                shown = seconds
                tell(f"{done} of {seeds} schedules, {done / seconds:.0f}/s")
            if one.failure:
                break
    return told


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed of each scenario")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="repeatable")
    parser.add_argument("--report", type=Path, help="a JSON file for the figures")
    options = parser.parse_args()
    names = options.scenario or list(SCENARIOS)
    began = time.perf_counter()
    told = explore_all(names, options.seeds, options.first, options.processes)
    seconds = time.perf_counter() - began
    done = sum(one.portion.count for one in told if not one.failure)
    failures = [one.failure for one in told if one.failure]
    figures = {
        "schedules": done,
        "seconds": round(seconds, 1),
        "schedules_per_second": round(done / seconds, 1),
        "schedules_per_cpu_second": round(done / sum(one.cpu_seconds for one in told), 1),
        "most_choices": max(one.most_choices for one in told),
        "processes": options.processes,
        "scenarios": shares(names, options.seeds),
        "failures": failures,
    }
    tell(json.dumps(figures, indent=1))
    if options.report:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(json.dumps(figures, indent=1))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
