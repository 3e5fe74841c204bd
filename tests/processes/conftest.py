"""What holds for every test with worker processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

# Where a fault shows that no client was told of.
UNTOLD = {"hypercorn.error", "headrace.http.serve"}


@pytest.fixture(autouse=True)
def no_untold_faults(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    faults = [r for r in caplog.get_records("call") if r.name in UNTOLD and r.levelname == "ERROR"]
    assert not faults, [record.getMessage() for record in faults]
