"""The web page as the server gives it: its files, their headers, and who may have them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from headrace.http.accepts import prefers_html
from headrace.http.assets import FOLDER, TYPES, read_page
from headrace.runtime.testing.site import Reply, Site, http, open_site

ROOT = Path(__file__).resolve().parents[2]
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
FILES = sorted(file for file in FOLDER.iterdir() if file.suffix in TYPES)


async def get(site: Site, path: str, **headers: str) -> Reply:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await site.call(http("GET", path, headers=sent))


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        (None, False),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("text/html", True),
        (BROWSER, True),
        ("text/*", True),
        ("text/html;q=0.5, application/json", False),
        ("text/html, application/json", False),
        ("text/html;q=nonsense", False),
        ("text/plain", False),
    ],
)
def test_who_is_given_the_page(accept: str | None, html: bool) -> None:
    assert prefers_html(accept) is html


async def test_the_root_is_a_page_or_a_description() -> None:
    async with open_site() as site:
        page = await get(site, "/", accept=BROWSER)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["vary"] == "Accept"
        assert b"<title>headrace</title>" in page.body
        told = await get(site, "/", accept="*/*")
        assert told.json == (await get(site, "/v1")).json
        assert told.headers["vary"] == "Accept"


async def test_every_file_of_the_page_is_served_as_what_it_is() -> None:
    async with open_site() as site:
        for file in FILES:
            reply = await get(site, f"/page/{file.name}")
            assert reply.status == 200
            assert reply.body == file.read_bytes()
            assert reply.headers["content-type"] == TYPES[file.suffix]
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert reply.headers["cache-control"] == "no-cache"
            policy = reply.headers["content-security-policy"]
            assert policy.startswith("default-src 'self'; ")
            assert "unsafe" not in policy


async def test_a_file_that_has_not_changed_is_not_sent_again() -> None:
    async with open_site() as site:
        etag = (await get(site, "/page/main.js")).headers["etag"]
        for known in (etag, f'"other", {etag}', f"W/{etag}"):
            again = await get(site, "/page/main.js", if_none_match=known)
            assert (again.status, again.body) == (304, b"")
            assert again.headers["etag"] == etag
        assert (await get(site, "/page/main.js", if_none_match='"other"')).status == 200


async def test_the_head_of_a_file_is_told_alone() -> None:
    async with open_site() as site:
        reply = await site.call(http("HEAD", "/page/base.css"))
        assert (reply.status, reply.body) == (200, b"")


@pytest.mark.parametrize(
    "path",
    ["/page/none.js", "/page/..%2fapp.py", "/page/../app.py", "/page/package.json", "/page/"],
)
async def test_there_is_nothing_beside_the_page(path: str) -> None:
    async with open_site() as site:
        reply = await get(site, path, accept=BROWSER)
        assert (reply.status, reply.code) == (404, "not_found")


async def test_the_page_needs_no_key_and_everything_it_shows_does() -> None:
    async with open_site(api_keys=["secret"]) as site:
        assert (await get(site, "/", accept=BROWSER)).status == 200
        assert (await get(site, "/page/main.js")).status == 200
        for path in ("/", "/live", "/stats", "/v1/models", "/v1/requests", "/pages/main.js"):
            assert (await get(site, path)).code == "missing_api_key"
        post = await site.call(http("POST", "/page/main.js", b"{}"))
        assert post.code == "missing_api_key"


async def test_a_link_from_another_site_opens_the_page_and_takes_nothing_else() -> None:
    async with open_site() as site:
        follows = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
        assert (await get(site, "/", accept=BROWSER, **follows)).status == 200
        assert (await get(site, "/page/main.js", **follows)).code == "cross_site"
        assert (await get(site, "/live", **follows)).code == "cross_site"


def test_the_package_has_every_file_of_the_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["headrace.http"]
    assert {f"page/*{file.suffix}" for file in FILES} == set(patterns)
    assert [file.name for file in FILES] == sorted(read_page())


def test_the_page_asks_for_nothing_that_it_does_not_have() -> None:
    names = {file.name for file in FILES}
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        without_namespace = text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//[a-z]+\.", without_namespace), file.name
        imported = re.findall(r'from "\./([^"]+)"', text)
        linked = re.findall(r'(?:href|src)="page/([^"]+)"', text)
        assert names.issuperset([*imported, *linked]), file.name


def test_no_text_becomes_markup() -> None:
    risky = re.compile(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function")
    for file in FILES:
        assert not risky.search(file.read_text(encoding="utf-8")), file.name
