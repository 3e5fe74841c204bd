"""The handlers of the Files routes, in the official shapes: what batches are brought and give."""

from __future__ import annotations

from typing import Any

from quart import Response

from headrace.actors.jobs.files import StoredFile
from headrace.http.exchange import Exchange
from headrace.http.multipart import FORM, Part, is_form, read_parts
from headrace.http.wire.fields import as_choice, missing, unsupported, wrong_value
from headrace.runtime.errors import Code, RequestError

PURPOSES = ("batch",)
ID_DIGITS = 24
MOST_LISTED = 10_000
MOST_NAME = 512
ORDERS = ("desc", "asc")


async def upload(exchange: Exchange) -> Response:
    content_type = exchange.header("content-type")
    if not is_form(content_type):
        raise RequestError(Code.UNSUPPORTED_MEDIA_TYPE, f"The content type must be {FORM}.")
    data = await exchange.upload()
    jobs = exchange.edge.runtime.jobs
    # Far from the loop: a large body takes a while.
    parts = await jobs.call(lambda _: read_parts(data, content_type))
    purpose, part = _read(parts)
    content = bytes(part.data)
    file = StoredFile(
        id=f"file-{jobs.stamps.token(ID_DIGITS)}",
        filename=(part.filename or "file")[:MOST_NAME],
        purpose=purpose,
        bytes=len(content),
        created_at=jobs.stamps.now() // 1000,
    )
    await jobs.call(lambda store: store.files.add(file, content))
    return exchange.json(file_object(file))


def _read(parts: list[Part]) -> tuple[str, Part]:
    """The purpose and the file of an upload. Raises `RequestError`."""
    found = {part.name: part for part in parts}
    for name in found:
        if name not in ("purpose", "file"):
            raise unsupported(name)
    if "file" not in found:
        raise missing("file")
    if "purpose" not in found:
        raise missing("purpose")
    purpose = bytes(found["purpose"].data).decode(errors="replace")
    return as_choice(purpose, "purpose", PURPOSES), found["file"]


async def listing(exchange: Exchange) -> Response:
    limit = exchange.query_integer("limit", default=MOST_LISTED)
    if not 1 <= limit <= MOST_LISTED:
        raise wrong_value("limit", f"must be between 1 and {MOST_LISTED}")
    oldest = as_choice(exchange.query_text("order") or "desc", "order", ORDERS) == "asc"
    purpose, after = exchange.query_text("purpose"), exchange.query_text("after")
    if after is not None:
        await find(exchange, after, "after")
    files = await exchange.edge.runtime.jobs.call(
        lambda store: store.files.newest(limit + 1, purpose, after, oldest=oldest)
    )
    return exchange.json(page([file_object(file) for file in files], limit))


async def show(exchange: Exchange, name: str) -> Response:
    return exchange.json(file_object(await find(exchange, name)))


async def content(exchange: Exchange, name: str) -> Response:
    await find(exchange, name)
    data = await exchange.edge.runtime.jobs.call(lambda store: store.files.read(name))
    return Response(data or b"", content_type="application/octet-stream")


async def delete(exchange: Exchange, name: str) -> Response:
    await find(exchange, name)
    await exchange.edge.runtime.jobs.call(lambda store: store.files.delete(name))
    return exchange.json({"id": name, "object": "file", "deleted": True})


async def find(exchange: Exchange, name: str, param: str = "id") -> StoredFile:
    """Raises `RequestError` (not_found)."""
    found = await exchange.edge.runtime.jobs.call(lambda store: store.files.get(name))
    if found is None:
        raise RequestError(Code.NOT_FOUND, "No file has this id.", param=param)
    return found


def file_object(file: StoredFile) -> dict[str, Any]:
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": file.created_at,
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
    }


def page(found: list[dict[str, Any]], limit: int) -> dict[str, Any]:
    """A list in the official shape; `found` holds one more where there are more."""
    shown = found[:limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(found) > limit,
    }
