#!/usr/bin/env python3
"""Readers that have stopped reading: how long they are served, and what they cost after that.

    python bench/stalled.py                                  about 2 minutes

Streams with the twenty likeliest tokens beside each word, so that buffers fill soon, whose clients
take the first piece and then read nothing. A stream whose socket takes nothing for `write_stall_s`
is given up, as if its client had hung up. From then on nothing is computed for it, which is shown
by the processor time of all processes.
"""

from __future__ import annotations

import argparse
import socket
import time
from contextlib import ExitStack
from typing import Any

from _second import default_folder
from cancel import prompt
from served import Served, chat, served, verdict

# Of the kernel, for what the client has not read.
BUFFER_BYTES = 4096
# Share of one core, of which looking takes the most.
MOST_LOAD = 0.05
# Seconds without a token after which a stream counts as standing still.
STILL_SECONDS = 3.0
PATIENCE_SECONDS = 120.0


def stopped(server: Served, number: int) -> socket.socket:
    """A client that has read the beginning of its answer, and will read no more."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    client.settimeout(PATIENCE_SECONDS)
    client.connect(("127.0.0.1", server.port))
    fields: dict[str, Any] = {
        "stream": True,
        "logprobs": True,
        "top_logprobs": 20,
        "max_tokens": 6000,
    }
    client.sendall(chat(prompt(30, number), f"stalled-{number}", ignore_eos=True, **fields))
    seen = b""
    while b'"content":"' not in seen:
        seen += client.recv(1024)
    return client


def decoded(server: Served) -> float:
    return server.metric("headrace_tokens_total", kind="decoded")


def standing_still(server: Served) -> float:
    """Tokens at which nothing more is computed."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    before = -1.0
    while (now := decoded(server)) > before:
        if time.monotonic() > deadline:
            raise SystemExit("rows go on without their readers")
        before = now
        time.sleep(STILL_SECONDS)
    return now


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--write-stall-s", type=float, default=30.0)
    options = parser.parse_args()
    stall = ("--write-stall-s", str(options.write_stall_s))
    with served(str(default_folder()), *stall) as server, ExitStack() as stack:
        before = decoded(server)
        for number in range(options.readers):
            stack.enter_context(stopped(server, number))
        tokens = standing_still(server) - before
        began = server.processor_seconds()
        time.sleep(options.seconds)
        load = (server.processor_seconds() - began) / options.seconds
        left = server.metric("headrace_requests_in_flight")
        given_up = server.metric("headrace_cancelled_total")
    each = tokens / options.readers
    print(f"{each:.0f} tokens for each of {options.readers} readers, then {load:.3f} of a core")
    verdict(
        {
            f"they cost at most {MOST_LOAD} of a core": load <= MOST_LOAD,
            "all of them are given up": left == 0 and given_up == options.readers,
        }
    )


if __name__ == "__main__":
    main()
