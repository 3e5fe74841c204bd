"""The server's sockets, taken before the server is there.

Nothing is imported for it: clients may connect, and the kernel keeps what they send until the
server is up. Whoever cannot have the port is told before anything else is done.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

Sockets: TypeAlias = tuple[socket.socket, ...]

# Connections that wait to be accepted.
BACKLOG = 1024


@contextmanager
def bound(host: str, port: int) -> Iterator[Sockets]:
    """A socket for each address of `host`, bound and not yet listening; closed on the way out.

    Raises `OSError`. An address of a kind that this system does not have is passed over, as long
    as there is another one.
    """
    with ExitStack() as stack:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets = tuple(
            stack.enter_context(_bound(made, address))
            for family, kind, protocol, _, address in found
            if (made := _made(family, kind, protocol)) is not None
        )
        if not sockets:
            raise OSError(errno.EAFNOSUPPORT, "this system has no address of that kind")
        yield sockets


def listen_at(sockets: Sockets) -> None:
    """From now on connections are taken; again is no harm. Raises `OSError`."""
    for each in sockets:
        each.listen(BACKLOG)


def _made(family: int, kind: int, protocol: int) -> socket.socket | None:
    try:
        return socket.socket(family, kind, protocol)
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT:
            return None
        raise


def _bound(made: socket.socket, address: tuple[object, ...]) -> socket.socket:
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if made.family == socket.AF_INET6:
            # The IPv4 addresses of a host have sockets of their own.
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made
