"""What kind of answer a client would rather have."""

from __future__ import annotations

from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header


def prefers_html(accept: str | None) -> bool:
    """Whether an Accept header puts a page before JSON; who takes anything gets JSON."""
    accepted = parse_accept_header(accept, MIMEAccept)
    return accepted["text/html"] > accepted["application/json"]
