"""Who may call (wire contract 1.3): a pure decider over a request's head.

It guards a server on somebody's desk: a page in a browser must not reach it by a name that
points here (Host), by a script of another site (Origin, Sec-Fetch-Site), or without a key where
keys are set.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Collection

import attrs

from headrace.http.accepts import prefers_html
from headrace.runtime.errors import Code, ErrorInfo

LOCAL_NAMES = frozenset({"localhost", "host.docker.internal"})
WILDCARDS = frozenset({"", "0.0.0.0", "::"})
DEFAULT_PORTS = {"http": 80, "https": 443}
ANY = "*"


@attrs.frozen
class Policy:
    """What the operator has set. `machine_name` is the host's own, without a domain."""

    bound_host: str = "127.0.0.1"
    machine_name: str = ""
    allowed_hosts: Collection[str] = ()
    allowed_origins: Collection[str] = ()
    credentials: bool = False
    api_keys: Collection[str] = ()
    metrics_public: bool = False

    def lists(self, origin: str) -> bool:
        """Whether an origin is allowed by name. The opaque `null` is no part of `*`."""
        return origin in self.allowed_origins or (ANY in self.allowed_origins and origin != "null")


@attrs.frozen(kw_only=True)
class RequestHead:
    """What the decision looks at. Headers that may come twice are given as they came."""

    method: str
    path: str
    scheme: str = "http"
    host: str | None = None
    origin: str | None = None
    fetch_site: str | None = None
    fetch_mode: str | None = None
    accept: str | None = None
    authorization: tuple[str, ...] = ()
    x_api_key: tuple[str, ...] = ()


def refusal(policy: Policy, head: RequestHead) -> ErrorInfo | None:
    """Why a request may not pass, or None where it may."""
    if not _host_passes(policy, head.host):
        return ErrorInfo(
            Code.INVALID_HOST,
            "The Host header names a host that this server does not answer for. "
            "Add it to the setting allowed_hosts.",
        )
    if not _origin_passes(policy, head):
        return ErrorInfo(
            Code.CROSS_ORIGIN,
            "Pages of this origin may not call the server. Add it to the setting allowed_origins.",
        )
    if head.method == "OPTIONS":
        return None
    if not _site_passes(policy, head):
        return ErrorInfo(Code.CROSS_SITE, "Pages of another site may not call the server.")
    return None if _is_free_of_keys(policy, head) else _key_refusal(policy, head)


def cors_headers(policy: Policy, origin: str | None) -> dict[str, str]:
    """The headers on every response to a listed origin; none for anybody else."""
    if origin is None or not policy.lists(origin):
        return {}
    named = origin in policy.allowed_origins
    headers = {
        "Access-Control-Allow-Origin": ANY if ANY in policy.allowed_origins else origin,
        "Access-Control-Expose-Headers": (
            "X-Request-ID, request-id, Retry-After, retry-after-ms, Warning"
        ),
    }
    if ANY not in policy.allowed_origins:
        headers["Vary"] = "Origin"
        if policy.credentials and named:
            headers["Access-Control-Allow-Credentials"] = "true"
    return headers


def preflight_headers(
    policy: Policy, origin: str | None, *, requested: str | None, private_network: bool
) -> dict[str, str]:
    """What a preflight from a listed origin is answered, besides `cors_headers`.

    The requested header names are echoed, so that SDKs may send whatever they send.
    """
    if origin is None or not policy.lists(origin):
        return {}
    headers = {
        "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
        "Access-Control-Max-Age": "600",
    }
    if requested:
        headers["Access-Control-Allow-Headers"] = requested
    if private_network:
        headers["Access-Control-Allow-Private-Network"] = "true"
    return headers


def bearer(header: str) -> str | None:
    """The key of an Authorization header; None where it is of another scheme or empty."""
    scheme, _, key = header.strip().partition(" ")
    return (key.strip() or None) if scheme.lower() == "bearer" else None


# ---- the steps -----------------------------------------------------------------------------


def _host_passes(policy: Policy, header: str | None) -> bool:
    if not header:
        return True
    host = _hostname(header)
    if host is None:
        return False
    if host in LOCAL_NAMES or host == policy.bound_host.lower():
        return True
    if host in {allowed.lower() for allowed in policy.allowed_hosts}:
        return True
    address = _address(host)
    if address is not None and address.is_loopback:
        return True
    if policy.bound_host not in WILDCARDS:
        return False
    name = policy.machine_name.lower()
    return address is not None or (bool(name) and host in (name, f"{name}.local"))


def _origin_passes(policy: Policy, head: RequestHead) -> bool:
    if head.origin is None or policy.lists(head.origin):
        return True
    addressed = _normal_origin(f"{head.scheme}://{head.host or ''}")
    return addressed is not None and _normal_origin(head.origin) == addressed


def _site_passes(policy: Policy, head: RequestHead) -> bool:
    if head.fetch_site in (None, "same-origin", "none"):
        return True
    if head.origin is not None and policy.lists(head.origin):
        return True
    navigates = head.method == "GET" and head.fetch_mode == "navigate"
    return navigates and head.path == "/"


def _is_free_of_keys(policy: Policy, head: RequestHead) -> bool:
    if not policy.api_keys:
        return True
    if head.method not in ("GET", "HEAD"):
        return False
    path = head.path.removesuffix("/")
    # The page has nothing of the runtime in it: what it shows it asks for, with a key.
    page = path.startswith("/page/") or (path == "" and prefers_html(head.accept))
    return page or path == "/health" or (path == "/metrics" and policy.metrics_public)


def _key_refusal(policy: Policy, head: RequestHead) -> ErrorInfo | None:
    if len(head.authorization) > 1 or len(head.x_api_key) > 1:
        return ErrorInfo(Code.DUPLICATE_CREDENTIALS, "The same credential header was sent twice.")
    sent = [bearer(header) for header in head.authorization]
    sent += [header.strip() for header in head.x_api_key]
    if not sent:
        return ErrorInfo(
            Code.MISSING_API_KEY,
            "An API key is needed: send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'.",
        )
    if all(_is_known(policy, key) for key in sent):
        return None
    return ErrorInfo(Code.INVALID_API_KEY, "The API key is not valid.")


def _is_known(policy: Policy, key: str | None) -> bool:
    """Compared with every key in constant time, so that time tells nothing about any."""
    # Header values were read as latin-1; their bytes are what the client sent.
    data = (key or "").encode("latin-1", "replace")
    matches = [hmac.compare_digest(data, known.encode()) for known in policy.api_keys]
    return any(matches)


# ---- names and addresses -------------------------------------------------------------------


def _hostname(header: str) -> str | None:
    """The host of `host`, `host:port` or `[v6]:port`, in lower case; None where it is none."""
    text = header.strip().lower()
    if text.startswith("["):
        host, closed, port = text[1:].partition("]")
        return host if closed and (not port or _is_port(port.removeprefix(":"))) else None
    host, colon, port = text.partition(":")
    if not host or (colon and not _is_port(port)):
        return None
    return host.removesuffix(".")


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) <= 65535


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _normal_origin(origin: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None for what has no host, such as `null`."""
    scheme, _, authority = origin.lower().partition("://")
    host = _hostname(authority)
    if host is None or scheme not in DEFAULT_PORTS:
        return None
    port = authority.rpartition(":")[2] if authority.rpartition("]")[2].count(":") else ""
    return scheme, host, int(port or DEFAULT_PORTS[scheme])
