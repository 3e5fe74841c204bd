"""The access policy as clients meet it: heads over real sockets, and what each is answered.

`test_access.py` has the decisions one by one; here are whole heads, each against a server with keys
or origins of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headrace.runtime.testing.site import CHAT, Reply, Site, open_site

PAGE = "https://page.example"
OTHER = "https://other.example"
BODY = b'{"messages":[{"role":"user","content":"Hi"}],"max_tokens":1}'
MODELS = "GET /v1/models"
ASK = f"POST {CHAT}"
NONE: tuple[str, ...] = ()

# method and path, further header lines, status, code; `Host` is there unless a line sets it.
Row = tuple[str, Sequence[str], int, str | None]

# Without keys and without origins, as a server starts.
PLAIN: list[Row] = [
    (MODELS, NONE, 200, None),
    (ASK, NONE, 200, None),
    (MODELS, ["Host: localhost:1"], 200, None),
    (MODELS, ["Host: 127.0.0.1"], 200, None),
    (MODELS, ["Host: 127.1.2.3:80"], 200, None),
    (MODELS, ["Host: [::1]:8080"], 200, None),
    (MODELS, ["Host: host.docker.internal"], 200, None),
    (MODELS, ["Host: evil.example"], 403, "invalid_host"),
    (MODELS, ["Host: localhost.evil.example"], 403, "invalid_host"),
    (MODELS, ["Host: 192.168.1.7"], 403, "invalid_host"),
    (MODELS, ["Host: localhost@evil.example"], 403, "invalid_host"),
    (ASK, ["Host: evil.example"], 403, "invalid_host"),
    ("OPTIONS /v1/models", ["Host: evil.example"], 403, "invalid_host"),
    (MODELS, ["Host: localhost", "X-Forwarded-Host: evil.example"], 200, None),
    (MODELS, ["Origin: http://localhost"], 200, None),
    (MODELS, ["Origin: http://localhost:1"], 403, "cross_origin"),
    (MODELS, ["Origin: https://localhost"], 403, "cross_origin"),
    (MODELS, [f"Origin: {PAGE}"], 403, "cross_origin"),
    (ASK, [f"Origin: {PAGE}"], 403, "cross_origin"),
    (MODELS, ["Origin: null"], 403, "cross_origin"),
    ("OPTIONS /v1/models", [f"Origin: {PAGE}"], 403, "cross_origin"),
    ("OPTIONS /v1/models", NONE, 204, None),
    (MODELS, ["Sec-Fetch-Site: same-origin"], 200, None),
    (MODELS, ["Sec-Fetch-Site: none"], 200, None),
    (MODELS, ["Sec-Fetch-Site: cross-site"], 403, "cross_site"),
    (MODELS, ["Sec-Fetch-Site: same-site"], 403, "cross_site"),
    (ASK, ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"], 403, "cross_site"),
    ("GET /", ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"], 200, None),
    ("GET /", ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"], 403, "cross_site"),
    # Without keys nobody looks at credentials.
    (MODELS, ["Authorization: Basic x", "Authorization: nonsense"], 200, None),
]
# With the keys `one` and `two`, and without origins.
KEYED: list[Row] = [
    (MODELS, NONE, 401, "missing_api_key"),
    (ASK, NONE, 401, "missing_api_key"),
    (MODELS, ["Authorization: Bearer one"], 200, None),
    (MODELS, ["Authorization: bearer  two"], 200, None),
    (ASK, ["x-api-key: two"], 200, None),
    (MODELS, ["Authorization: Bearer three"], 401, "invalid_api_key"),
    (MODELS, ["Authorization: Bearer"], 401, "invalid_api_key"),
    (MODELS, ["Authorization: Basic b25l"], 401, "invalid_api_key"),
    (MODELS, ["Authorization: one"], 401, "invalid_api_key"),
    (MODELS, ["x-api-key:"], 401, "invalid_api_key"),
    (MODELS, ["x-api-key: on"], 401, "invalid_api_key"),
    (MODELS, ["x-api-key: one", "Authorization: Bearer two"], 200, None),
    (MODELS, ["x-api-key: one", "Authorization: Bearer three"], 401, "invalid_api_key"),
    (MODELS, ["x-api-key: one", "x-api-key: one"], 401, "duplicate_credentials"),
    (
        MODELS,
        ["Authorization: Bearer one", "Authorization: Bearer one"],
        401,
        "duplicate_credentials",
    ),
    ("GET /health", NONE, 200, None),
    ("HEAD /health", NONE, 200, None),
    ("GET /metrics", NONE, 401, "missing_api_key"),
    ("GET /metrics", ["x-api-key: one"], 200, None),
    ("POST /admin/drain", NONE, 401, "missing_api_key"),
    ("GET /nothing", NONE, 401, "missing_api_key"),
    ("OPTIONS /v1/models", NONE, 204, None),
    # What stands before the key is told first.
    (MODELS, ["Host: evil.example", "x-api-key: one"], 403, "invalid_host"),
    (MODELS, [f"Origin: {PAGE}", "x-api-key: one"], 403, "cross_origin"),
    (MODELS, ["Sec-Fetch-Site: cross-site", "x-api-key: one"], 403, "cross_site"),
]
# With the origin PAGE, and no keys.
LISTED: list[Row] = [
    (MODELS, [f"Origin: {PAGE}"], 200, None),
    (ASK, [f"Origin: {PAGE}", "Sec-Fetch-Site: cross-site"], 200, None),
    (MODELS, [f"Origin: {OTHER}", "Sec-Fetch-Site: cross-site"], 403, "cross_origin"),
    (MODELS, [f"Origin: {PAGE}.evil.example"], 403, "cross_origin"),
    (MODELS, ["Origin: null"], 403, "cross_origin"),
    (MODELS, ["Sec-Fetch-Site: cross-site"], 403, "cross_site"),
    ("OPTIONS /v1/models", [f"Origin: {PAGE}"], 204, None),
    ("GET /nothing", [f"Origin: {PAGE}"], 404, "not_found"),
    ("PUT /health", [f"Origin: {PAGE}"], 405, "method_not_allowed"),
]
# Any origin, and /metrics without a key.
OPEN: list[Row] = [
    (MODELS, [f"Origin: {OTHER}", "x-api-key: one"], 200, None),
    (MODELS, ["Origin: null", "x-api-key: one"], 403, "cross_origin"),
    (MODELS, [f"Origin: {OTHER}"], 401, "missing_api_key"),
    ("OPTIONS /v1/models", [f"Origin: {OTHER}"], 204, None),
    ("GET /metrics", NONE, 200, None),
    ("GET /stats", NONE, 401, "missing_api_key"),
]
SERVERS: dict[str, tuple[dict[str, Any], list[Row]]] = {
    "plain": ({}, PLAIN),
    "keyed": ({"api_keys": ["one", "two"]}, KEYED),
    "listed": ({"allowed_origins": [PAGE]}, LISTED),
    "open": ({"allowed_origins": ["*"], "api_keys": ["one"], "metrics_public": True}, OPEN),
}


async def answered(site: Site, what: str, lines: Sequence[str]) -> Reply:
    hosts = [] if any(line.startswith("Host:") for line in lines) else ["Host: localhost"]
    body = BODY if what == ASK else b""
    kind = ["Content-Type: application/json", f"Content-Length: {len(body)}"] if body else []
    head = [f"{what} HTTP/1.1", *hosts, *lines, *kind, "Connection: close", "", ""]
    return await site.call("\r\n".join(head).encode() + body)


def check_headers(reply: Reply, what: str, lines: Sequence[str], origins: Sequence[str]) -> None:
    assert reply.headers["x-request-id"] == reply.headers["request-id"]
    if reply.status == 401:
        assert reply.headers["www-authenticate"] == 'Bearer realm="headrace"'
    sent = next((line[8:] for line in lines if line.startswith("Origin: ")), None)
    listed = sent is not None and (sent in origins or ("*" in origins and sent != "null"))
    expected = ("*" if "*" in origins else sent) if listed else None
    assert reply.headers.get("access-control-allow-origin") == expected
    assert ("access-control-allow-methods" in reply.headers) == (
        listed and what.startswith("OPTIONS")
    )


@pytest.mark.parametrize("name", SERVERS)
async def test_each_head_gets_its_answer(name: str) -> None:
    settings, rows = SERVERS[name]
    wrong = []
    async with open_site(**settings) as site:
        for what, lines, status, code in rows:
            reply = await answered(site, what, lines)
            told = reply.code if reply.status >= 400 and reply.body else None
            if (reply.status, told) != (status, code):
                wrong.append((what, lines, reply.status, told))
            check_headers(reply, what, lines, settings.get("allowed_origins", ()))
        assert not wrong
        await site.idle()
