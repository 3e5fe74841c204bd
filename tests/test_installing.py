"""uv is told of every place that pip would look at."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "packaging" / "install.py"
TOLD = """
global.constraint='/etc/limits.txt'
global.extra-index-url='file:///a/simple file:///b/simple'
global.index-url='https://pip.invalid/simple'
install.index-url='https://install.invalid/simple'
:env:.find-links='/wheels'
:env:.cert='/etc/authorities.crt'
""".strip()


@pytest.fixture(scope="module")
def install() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(SCRIPT)))


def test_a_place_that_pip_knows_is_one_for_uv(install: SimpleNamespace) -> None:
    settings = install.settings_of_pip(TOLD)
    assert install.uv_options(settings)[2:] == [
        *("--default-index", "https://install.invalid/simple"),
        *("--index", "file:///a/simple", "--index", "file:///b/simple"),
        *("--find-links", "/wheels", "--constraints", "/etc/limits.txt"),
    ]
    assert install.uv_variables(settings) == {"SSL_CERT_FILE": "/etc/authorities.crt"}


def test_a_variable_comes_before_a_file(install: SimpleNamespace) -> None:
    told = ":env:.index-url='https://here.invalid'\nglobal.index-url='https://there.invalid'"
    assert install.settings_of_pip(told)["index-url"] == "https://here.invalid"


def test_without_any_settings_the_usual_index_is_asked(install: SimpleNamespace) -> None:
    assert install.uv_options(install.settings_of_pip("")) == [
        "--index-strategy", "unsafe-best-match",
    ]  # fmt: skip
    assert install.uv_variables({}) == {}
