"""What the doctor says of a machine, and what it advises."""

from __future__ import annotations

import sys
from pathlib import Path

import mlx.core as mx
import pytest

from headrace.actors.engine import doctor
from headrace.actors.engine.blas import BlasReport
from headrace.actors.engine.doctor import Finding, examine

FAST = BlasReport("OpenBLAS 0.3.34", 1)

on_cpu = pytest.mark.skipif(
    mx.default_device().type != mx.DeviceType.cpu, reason="only a CPU has a BLAS to choose"
)


def findings(
    home: Path, blas: BlasReport = FAST, default_model_ready: bool = True
) -> dict[str, Finding]:
    return {finding.topic: finding for finding in examine(home, blas, default_model_ready)}


def test_every_part_is_looked_at_and_advice_comes_with_what_is_not_well(tmp_path: Path) -> None:
    found = findings(tmp_path)
    assert {"system", "device", "dtype", "disk", "memory", "default model"} <= found.keys()
    assert "mlx-lm" in found["system"].text
    assert all(bool(finding.advice) == (finding.severity != "ok") for finding in found.values())


@on_cpu
def test_a_slow_blas_is_explained_by_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "product_gigaflops", lambda: 3.6)
    absent = BlasReport("the bundled reference BLAS", reason="scipy-openblas32 is not installed")
    found = findings(tmp_path, absent)["blas"]
    assert found.severity == "advice"
    assert "4 GF/s" in found.text
    assert "headrace[cpu]" in found.advice
    assert "busy" in findings(tmp_path, FAST)["blas"].advice


@on_cpu
def test_a_missing_compiler_is_no_problem_but_worth_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert findings(tmp_path)["compiler"].severity == "advice"


def test_a_home_that_is_not_made_yet_is_measured_where_it_would_be(tmp_path: Path) -> None:
    assert findings(tmp_path / "not" / "yet")["disk"].severity == "ok"


def test_a_full_disk_matters_until_the_default_model_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 10_000_000})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    assert findings(tmp_path, default_model_ready=False)["disk"].severity == "problem"
    assert findings(tmp_path, default_model_ready=True)["disk"].severity == "ok"


@pytest.mark.skipif(sys.platform != "linux", reason="containers are limited this way on Linux")
def test_a_containers_limit_counts_as_the_memory_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(doctor, "_CONTAINER_LIMIT", limit)
    whole = doctor.memory_bytes()
    limit.write_text("1000000000\n")
    assert doctor.memory_bytes() == 1_000_000_000
    assert findings(tmp_path)["memory"].severity == "problem"
    limit.write_text("max\n")
    assert doctor.memory_bytes() == whole
