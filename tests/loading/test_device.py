"""How much memory models get by default, on machines that are not this one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from headrace.actors import provision
from headrace.actors.engine import device
from headrace.actors.engine.device import cuda_card_bytes
from headrace.actors.machine import ram_bytes
from headrace.actors.provision import CARD_SHARE, RAM_SHARE, usable_bytes

OF_RAM = int(ram_bytes() * RAM_SHARE)
GIB = 1 << 30


class Driver(ModuleType):
    """What `pynvml` offers, of a card of some size; without one it does not answer."""

    class NVMLError(Exception):
        pass

    def __init__(self, total: int | None) -> None:
        super().__init__("pynvml")
        self.total = total
        self.open = 0

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetMemoryInfo(self, card: int) -> Driver:
        if self.total is None:
            raise self.NVMLError("not supported")
        return self


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    made = Driver(24 * GIB)
    monkeypatch.setitem(sys.modules, "pynvml", made)
    yield made
    assert made.open == 0


def test_a_machine_without_a_device_gives_a_share_of_its_ram() -> None:
    assert usable_bytes("linux", ["mlx_cpu-0.30.dist-info"]) == OF_RAM


def test_a_card_gives_of_its_own_memory(driver: Driver) -> None:
    assert usable_bytes("linux", ["mlx_cuda_13-0.30.dist-info"]) == int(24 * GIB * CARD_SHARE)


def test_a_card_is_not_asked_where_mlx_cannot_use_it(driver: Driver) -> None:
    assert usable_bytes("linux", []) == OF_RAM


def test_a_card_that_shares_the_ram_leaves_the_share_of_it(driver: Driver) -> None:
    driver.total = None
    assert cuda_card_bytes() is None
    assert usable_bytes("linux", ["mlx_cuda_13-0.30.dist-info"]) == OF_RAM


def test_metal_s_own_figure_bounds_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provision, "metal_working_set_bytes", lambda: 1 * GIB)
    assert usable_bytes("darwin", []) == 1 * GIB


def test_a_metal_that_does_not_answer_leaves_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provision, "metal_working_set_bytes", lambda: None)
    assert usable_bytes("darwin", []) == OF_RAM


@pytest.mark.skipif(sys.platform == "darwin", reason="this machine has Metal")
def test_metal_is_not_asked_where_there_is_none() -> None:
    assert device.metal_working_set_bytes() is None
