"""MLX's products on a Linux CPU go to OpenBLAS, or stay where they were if that is not right.

Import slots belong to a process, so each story runs in one of its own and tells what it saw.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import mlx.core as mx
import pytest

from headrace.actors.engine.blas import BlasReport
from headrace.actors.engine.import_slots import slot_addresses

NAMES = ("cblas_sgemm", "cblas_dgemm", "cblas_cgemm")
PRELUDE = """
import ctypes, importlib.util, json, os, sys
from headrace.actors.engine import blas
from headrace.actors.engine.blas import products_agree, use_fast_blas
from headrace.actors.engine.doctor import product_gigaflops
from headrace.actors.engine.import_slots import slot_addresses
slots = slot_addresses("libmlx.so", blas._FUNCTIONS)
def held():
    return {name: ctypes.c_uint64.from_address(slot).value for name, slot in slots.items()}
def tell(**facts):
    print(json.dumps({name: str(fact) if isinstance(fact, blas.BlasReport) else fact
                      for name, fact in facts.items()}))
"""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or mx.default_device().type != mx.DeviceType.cpu,
    reason="only MLX for Linux CPUs has the reference BLAS",
)


def facts_of(story: str, **variables: str) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-c", PRELUDE + story],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_products_become_several_times_as_fast_and_stay_right() -> None:
    facts = facts_of(
        "before, slow = held(), product_gigaflops()\n"
        "report = use_fast_blas()\n"
        "tell(report=report, slow=slow, fast=product_gigaflops(), right=products_agree(),\n"
        "     before=before, after=held())"
    )
    assert facts["report"].startswith("OpenBLAS 0.")
    assert facts["report"].endswith(", 1 thread")
    assert facts["right"]
    # Twenty times on an idle machine; both are measured within one second.
    assert facts["fast"] > 3 * facts["slow"]
    assert set(facts["before"]) == set(NAMES)
    assert all(facts["after"][name] != facts["before"][name] for name in NAMES)


def test_a_wrong_product_puts_the_old_functions_back() -> None:
    facts = facts_of(
        "before = held()\n"
        "blas.products_agree = lambda: False\n"
        "report = use_fast_blas()\n"
        "tell(report=report, same=held() == before, right=products_agree())"
    )
    assert facts["report"] == str(
        BlasReport("the bundled reference BLAS", reason="a test product came out wrong")
    )
    assert facts["same"]
    assert facts["right"]


@pytest.mark.parametrize("name", NAMES)
def test_the_check_sees_a_function_that_does_not_multiply(name: str) -> None:
    facts = facts_of(
        "nothing = ctypes.CFUNCTYPE(None)(lambda: None)\n"
        f"slot = ctypes.c_uint64.from_address(slots['{name}'])\n"
        "old, slot.value = slot.value, ctypes.cast(nothing, ctypes.c_void_p).value\n"
        "wrong = not products_agree()\n"
        "slot.value = old\n"
        "tell(wrong=wrong, right=products_agree())"
    )
    assert facts == {"wrong": True, "right": True}


def test_the_number_of_threads_is_the_one_asked_for_and_can_change() -> None:
    facts = facts_of(
        "first = use_fast_blas(2)\n"
        "library = blas._load_openblas(2)\n"
        "two = library.scipy_openblas_get_num_threads()\n"
        "again = use_fast_blas(1)\n"
        "tell(first=first, two=two, again=again, one=library.scipy_openblas_get_num_threads())"
    )
    assert facts["first"].endswith(", 2 threads")
    assert facts["again"].endswith(", 1 thread")
    assert (facts["two"], facts["one"]) == (2, 1)


def test_variables_that_choose_kernels_for_another_processor_are_dropped() -> None:
    facts = facts_of(
        "use_fast_blas()\n"
        "library = blas._load_openblas(1)\n"
        "library.scipy_openblas_get_corename.restype = ctypes.c_char_p\n"
        "tell(core=library.scipy_openblas_get_corename().decode(),\n"
        "     left=[name for name in os.environ if name.startswith('OPENBLAS')])",
        OPENBLAS_CORETYPE="Prescott",
        OPENBLAS_L2_SIZE="1024",
    )
    assert facts["core"] != "Prescott"
    assert facts["left"] == []


def test_without_the_wheel_all_stays_and_the_report_says_what_to_install() -> None:
    facts = facts_of(
        "before = held()\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if 'openblas' in name else find(name)\n"
        "tell(report=use_fast_blas(), same=held() == before)"
    )
    assert "headrace[cpu]" in facts["report"]
    assert facts["same"]


def test_names_that_a_library_does_not_import_are_left_out() -> None:
    assert slot_addresses("libmlx.so", ["cblas_sgemm", "no_such_function"]).keys() == {
        "cblas_sgemm"
    }


def test_a_library_that_is_not_loaded_is_an_error() -> None:
    with pytest.raises(LookupError, match=r"libmissing\.so is not loaded"):
        slot_addresses("libmissing.so", NAMES)
