"""Names for requests and for those who send them (wire contract 1.2 and 1.3)."""

from __future__ import annotations

import hashlib
import ipaddress
import itertools
import re
from collections.abc import Container

_CLIENT_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


def fresh_id(token: str) -> str:
    return f"req_{token}"


def request_id(header: str | None, live: Container[str], token: str) -> str:
    """The id that a request goes by: the client's own where it is well formed, else a fresh one.

    `token` is 32 hex digits. An id that is in use gets a number, so that no two live requests
    share one; the client is never refused for that.
    """
    well_formed = header is not None and _CLIENT_ID.fullmatch(header)
    name = header if header is not None and well_formed else fresh_id(token)
    if name not in live:
        return name
    return next(f"{name}-{n}" for n in itertools.count(2) if f"{name}-{n}" not in live)


def client_name(key: str | None, address: str | None) -> str:
    """What tells one client from another in logs and counts; never the key itself."""
    if key is not None and key.strip():
        return "key:" + hashlib.sha256(key.strip().encode()).hexdigest()[:12]
    return _normal_address(address) if address else "unknown"


def is_loopback(address: str | None) -> bool:
    """Whether a client is on this machine. A proxy there makes all of its clients look so."""
    parsed = _parsed(address or "")
    return parsed is not None and parsed.is_loopback


def _normal_address(address: str) -> str:
    return str(_parsed(address) or address)


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """IPv4 that came in over an IPv6 socket is read as IPv4."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed
