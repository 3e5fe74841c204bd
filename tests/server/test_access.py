"""The access policy, step by step, as a table."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.access import (
    Policy,
    RequestHead,
    cors_headers,
    preflight_headers,
    refusal,
)
from headrace.runtime.errors import Code

PAGE = "https://page.example"
PLAIN = Policy()
OPEN = Policy(bound_host="0.0.0.0", machine_name="Bench")
LISTED = Policy(allowed_origins=[PAGE])
KEYED = Policy(api_keys=["one", "two"])


def decided(policy: Policy, **head: Any) -> Code | None:
    info = refusal(policy, RequestHead(**{"method": "POST", "path": "/v1/x"} | head))
    return None if info is None else info.code


@pytest.mark.parametrize(
    ("policy", "host", "passes"),
    [
        (PLAIN, None, True),
        (PLAIN, "", True),
        (PLAIN, "localhost", True),
        (PLAIN, "LOCALHOST:8080", True),
        (PLAIN, "localhost.", True),
        (PLAIN, "127.0.0.1:1", True),
        (PLAIN, "127.8.9.1", True),
        (PLAIN, "[::1]:8080", True),
        (PLAIN, "[::ffff:127.0.0.1]", True),
        (PLAIN, "host.docker.internal:8080", True),
        (PLAIN, "evil.example", False),
        (PLAIN, "localhost.evil.example", False),
        (PLAIN, "10.0.0.5", False),
        (PLAIN, "bench", False),
        (PLAIN, "localhost:port", False),
        (PLAIN, "localhost:80:80", False),
        (PLAIN, ":80", False),
        (PLAIN, "[::1", False),
        (PLAIN, "[::1]x", False),
        (PLAIN, "localhost:99999", False),
        (Policy(bound_host="10.0.0.5"), "10.0.0.5:80", True),
        (Policy(bound_host="10.0.0.5"), "10.0.0.6", False),
        (Policy(allowed_hosts=["Models.example"]), "models.example:443", True),
        (OPEN, "10.0.0.5:80", True),
        (OPEN, "[fe80::1]", True),
        (OPEN, "bench", True),
        (OPEN, "bench.local:80", True),
        (OPEN, "evil.example", False),
        (Policy(bound_host="::"), "", True),
        (Policy(bound_host="::"), "bench", False),
    ],
)
def test_hosts(policy: Policy, host: str | None, passes: bool) -> None:
    assert (decided(policy, host=host) is None) == passes
    # The host is looked at before all else, also for a preflight.
    if not passes:
        assert decided(policy, host=host, method="OPTIONS", origin=PAGE) is Code.INVALID_HOST


HERE = "localhost:8080"


@pytest.mark.parametrize(
    ("policy", "origin", "passes"),
    [
        (PLAIN, None, True),
        (PLAIN, "http://localhost:8080", True),
        (PLAIN, "HTTP://LOCALHOST:8080", True),
        (PLAIN, "http://localhost", False),
        (PLAIN, "http://localhost:8081", False),
        (PLAIN, "https://localhost:8080", False),
        (PLAIN, "http://127.0.0.1:8080", False),
        (PLAIN, PAGE, False),
        (PLAIN, "null", False),
        (PLAIN, "", False),
        (PLAIN, "http://[::1", False),
        (LISTED, PAGE, True),
        (LISTED, PAGE + ".evil.example", False),
        (Policy(allowed_origins=["*"]), PAGE, True),
        (Policy(allowed_origins=["*"]), "null", False),
        (Policy(allowed_origins=["null"]), "null", True),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_origins(policy: Policy, origin: str | None, passes: bool, method: str) -> None:
    code = decided(policy, method=method, host=HERE, origin=origin)
    assert code is (None if passes else Code.CROSS_ORIGIN)


def test_default_ports_are_equal_to_none() -> None:
    assert decided(PLAIN, host="localhost", origin="http://localhost:80") is None
    assert decided(PLAIN, host="[::1]:80", origin="http://[::1]") is None


@pytest.mark.parametrize(
    ("head", "passes"),
    [
        ({}, True),
        ({"fetch_site": "same-origin"}, True),
        ({"fetch_site": "none"}, True),
        ({"fetch_site": "same-site"}, False),
        ({"fetch_site": "cross-site"}, False),
        ({"fetch_site": "something-new"}, False),
        ({"fetch_site": "cross-site", "origin": PAGE}, True),
        ({"fetch_site": "cross-site", "method": "GET", "fetch_mode": "navigate"}, False),
        (
            {"fetch_site": "cross-site", "method": "GET", "fetch_mode": "navigate", "path": "/"},
            True,
        ),
        ({"fetch_site": "cross-site", "method": "GET", "path": "/"}, False),
        ({"fetch_site": "cross-site", "fetch_mode": "navigate", "path": "/"}, False),
    ],
)
def test_sites(head: dict[str, Any], passes: bool) -> None:
    assert decided(LISTED, **head) is (None if passes else Code.CROSS_SITE)


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ({}, Code.MISSING_API_KEY),
        ({"authorization": ("Bearer one",)}, None),
        ({"authorization": ("bearer   two ",)}, None),
        ({"x_api_key": ("two",)}, None),
        ({"authorization": ("Bearer one",), "x_api_key": ("two",)}, None),
        ({"authorization": ("Bearer one",), "x_api_key": ("three",)}, Code.INVALID_API_KEY),
        ({"authorization": ("Bearer three",)}, Code.INVALID_API_KEY),
        ({"authorization": ("Bearer",)}, Code.INVALID_API_KEY),
        ({"authorization": ("",)}, Code.INVALID_API_KEY),
        ({"authorization": ("Basic one",)}, Code.INVALID_API_KEY),
        ({"authorization": ("one",)}, Code.INVALID_API_KEY),
        ({"x_api_key": ("",)}, Code.INVALID_API_KEY),
        ({"x_api_key": ("on\u20ac",)}, Code.INVALID_API_KEY),
        ({"authorization": ("Bearer one", "Bearer one")}, Code.DUPLICATE_CREDENTIALS),
        ({"x_api_key": ("one", "one")}, Code.DUPLICATE_CREDENTIALS),
    ],
)
def test_keys(head: dict[str, Any], code: Code | None) -> None:
    assert decided(KEYED, **head) is code
    assert decided(PLAIN, **head) is None


def test_a_key_may_hold_any_text() -> None:
    # On the wire its bytes are read as latin-1.
    header = "Bearer " + "schlüssel".encode().decode("latin-1")
    assert decided(Policy(api_keys=["schlüssel"]), authorization=(header,)) is None


@pytest.mark.parametrize(
    ("method", "path", "public", "free"),
    [
        ("OPTIONS", "/v1/chat/completions", False, True),
        ("GET", "/health", False, True),
        ("HEAD", "/health/", False, True),
        ("POST", "/health", False, False),
        ("GET", "/metrics", False, False),
        ("GET", "/metrics", True, True),
        ("GET", "/stats", True, False),
    ],
)
def test_what_is_free_of_keys_q1(method: str, path: str, public: bool, free: bool) -> None:
    policy = attrs.evolve(KEYED, metrics_public=public)
    assert decided(policy, method=method, path=path) is (None if free else Code.MISSING_API_KEY)


def test_a_listed_origin_gets_its_headers_and_nobody_else() -> None:
    headers = cors_headers(LISTED, PAGE)
    assert headers["Access-Control-Allow-Origin"] == PAGE
    assert headers["Vary"] == "Origin"
    assert "Access-Control-Allow-Credentials" not in headers
    assert cors_headers(LISTED, "http://localhost:8080") == {}
    assert cors_headers(LISTED, None) == {}


def test_credentials_never_go_with_the_wildcard() -> None:
    named = Policy(allowed_origins=[PAGE], credentials=True)
    assert cors_headers(named, PAGE)["Access-Control-Allow-Credentials"] == "true"
    both = Policy(allowed_origins=["*", PAGE], credentials=True)
    headers = cors_headers(both, PAGE)
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert not {"Vary", "Access-Control-Allow-Credentials"} & set(headers)


def test_a_preflight_is_granted_what_it_asks_for_q2() -> None:
    wanted = "authorization, x-api-key, anthropic-version"
    headers = preflight_headers(LISTED, PAGE, requested=wanted, private_network=True)
    assert headers["Access-Control-Allow-Headers"] == wanted
    assert headers["Access-Control-Allow-Private-Network"] == "true"
    assert "DELETE" in headers["Access-Control-Allow-Methods"]
    assert preflight_headers(LISTED, None, requested=wanted, private_network=True) == {}


@given(st.text(max_size=20), st.text(max_size=20))
def test_no_header_can_make_the_decision_fail(host: str, origin: str) -> None:
    decided(OPEN, host=host, origin=origin)
    decided(KEYED, authorization=(host,), x_api_key=(origin,))
