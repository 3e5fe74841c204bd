"""The web page at `/`, and the files that it is made of."""

from __future__ import annotations

from quart import Response
from werkzeug.http import parse_etags

from headrace.http import routes
from headrace.http.accepts import prefers_html
from headrace.http.exchange import Exchange
from headrace.runtime.errors import Code, RequestError

HOME = "index.html"
# Nothing from elsewhere, no script in the markup, and none that is made of text at run time.
CONTENT_POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": CONTENT_POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def home(exchange: Exchange) -> Response:
    """The page for a browser, and what the server is for everybody else."""
    page = prefers_html(exchange.header("accept"))
    response = _file(exchange, HOME) if page else routes.about(exchange)
    response.vary.add("Accept")
    return response


def part(exchange: Exchange, name: str) -> Response:
    """One file that the page is made of."""
    return _file(exchange, name)


def _file(exchange: Exchange, name: str) -> Response:
    asset = exchange.edge.page.get(name)
    if asset is None:
        raise RequestError(Code.NOT_FOUND, "The page has no file of this name.")
    unchanged = parse_etags(exchange.header("if-none-match")).contains_weak(asset.etag)
    response = Response(
        b"" if unchanged else asset.data, 304 if unchanged else 200, content_type=asset.content_type
    )
    response.headers.update(HEADERS)
    response.set_etag(asset.etag)
    return response
