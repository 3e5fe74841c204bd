"""Notes are written inside the folders of the settings, and nowhere else."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.notes.roots import Roots, Spot
from headrace.runtime.errors import Code, RequestError

OWN, VAULT = Path("/home/me/memory"), Path("/vaults/mine")
ROOTS = Roots(OWN, (VAULT,))


@pytest.mark.parametrize(
    ("folder", "spot"),
    [
        ("notes", Spot(OWN, ("notes",))),
        ("notes/2026/may", Spot(OWN, ("notes", "2026", "may"))),
        (".", Spot(OWN, ())),
        ("./notes//x/", Spot(OWN, ("notes", "x"))),
        ("/home/me/memory/notes", Spot(OWN, ("notes",))),
        ("/vaults/mine", Spot(VAULT, ())),
        ("/vaults/mine/a b", Spot(VAULT, ("a b",))),
        ("Журнал", Spot(OWN, ("Журнал",))),
    ],
)
def test_folders_that_may_be_written(folder: str, spot: Spot) -> None:
    assert ROOTS.spot(folder) == spot


@pytest.mark.parametrize(
    "folder",
    [
        "..",
        "../memory",
        "notes/../..",
        "notes/../../x",
        "/etc",
        "/",
        "//etc",
        "/home/me",
        "/home/me/memory2",
        "/home/me/memory/../x",
        "/vaults",
        "/vaults/mine/../other",
        "~/notes",
        "~root",
        "",
        "  ",
        "a\x00b",
        "a\nb",
        "x" * 256,
        "\ud800",
    ],
)
def test_folders_that_may_not(folder: str) -> None:
    with pytest.raises(RequestError) as refused:
        ROOTS.spot(folder)
    assert (refused.value.code, refused.value.info.param) == (Code.INVALID_VALUE, "folder")


@given(st.lists(st.sampled_from(["..", ".", "a", "/", "~", "home", "me", "memory", "b"])))
def test_whatever_is_asked_stays_below_a_root(words: list[str]) -> None:
    try:
        spot = ROOTS.spot("/".join(words))
    except RequestError:
        return
    assert spot.root in (OWN, VAULT)
    assert ".." not in spot.parts
    assert all(len(PurePath(part).parts) == 1 for part in spot.parts)
