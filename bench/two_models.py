#!/usr/bin/env python3
"""Two models that do not fit together, and clients who want now the one and now the other.

    python bench/two_models.py --seconds 120 --clients 8        about 3 minutes
    python bench/two_models.py gemma-3-270m --max-tokens 8      about 6 minutes, after its making

The first is the default model. The second is a folder or a name that the library knows (it makes
gemma-3-270m from its parts, once), or without one a small random model that is made for the run.
Each answer is compared with what its model said to the same prompt when it was alone, greedily;
with one row at a time (--max-rows 1) they have to be equal, and with more rows a sum may round
differently and a near tie fall the other way. Loads and ends of models are read from the trace:
no load may begin while the other model is there. Measured bytes are looked at all the time.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
from _second import default_folder, folder_of, second_folder
from served import Served, served, verdict

SUBJECTS = ("a river", "a mill", "the moon", "bread", "a clock", "snow", "a bridge", "salt")
LOOK_SECONDS = 0.1


@attrs.define
class Looks:
    """What was seen of the server while it worked."""

    budget_bytes: int
    most_bytes: int = 0
    looks: int = 0
    # Events of models by (time, name, model); a look sees some again.
    events: dict[tuple[float, str, str], None] = attrs.field(factory=dict)

    def look(self, server: Served) -> None:
        ledger = server.get_json("/stats")["ledger"]
        self.most_bytes = max(self.most_bytes, ledger["measured_bytes"], ledger["weights_bytes"])
        self.looks += 1
        for event in server.get_json("/debug/trace?limit=4000")["data"]:
            if event["name"].startswith(("model.", "worker.")):
                key = (event["at"], event["name"], event["fields"]["model"])
                self.events[key] = None

    def together(self) -> int:
        """How often a load began while another model was there."""
        there: set[str] = set()
        found = 0
        for _, name, model in sorted(self.events):
            if name == "model.loading":
                found += bool(there - {model})
                there.add(model)
            elif name in ("model.evicted", "worker.died", "model.load_failed"):
                there.discard(model)
        return found

    def count(self, name: str) -> int:
        return sum(event == name for _, event, _ in self.events)


class Refused(Exception):
    """An answer that is none; the argument has its status and body."""


def ask(port: int, model: str, subject: str, max_tokens: int) -> Any:
    """One answer to a plain prompt, which a model without a chat template can continue too."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    prompt = f"A few words about {subject}:"
    fields = {"model": model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/completions", json.dumps(fields), headers)
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    if answer.status != 200:
        raise Refused(f"{answer.status} for {model}: {body}")
    return body


def text_of(body: Any) -> str:
    return str(body["choices"][0]["text"])


@attrs.define
class Client:
    """Asks one model and then the other, until the time is over."""

    number: int
    port: int
    models: list[str]
    solo: dict[tuple[str, str], str]
    options: argparse.Namespace
    tally: Counter[str] = attrs.field(factory=Counter)
    waits: list[float] = attrs.field(factory=list)
    different: list[tuple[str, str, str]] = attrs.field(factory=list)
    failures: list[str] = attrs.field(factory=list)

    def run(self) -> None:
        draw = random.Random(self.number)
        until = time.monotonic() + self.options.seconds
        turn = self.number
        while time.monotonic() < until:
            model = self.models[turn % 2]
            turn += 1
            subject = draw.choice(SUBJECTS)
            began = time.monotonic()
            try:
                body = ask(self.port, model, subject, self.options.max_tokens)
            except (Refused, OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                continue
            self.waits.append(time.monotonic() - began)
            self.judge(model, subject, body)

    def judge(self, model: str, subject: str, body: Any) -> None:
        text, alone = text_of(body), self.solo[model, subject]
        other = next(name for name in self.models if name != model)
        self.tally["answers"] += 1
        self.tally["of the right model"] += body["model"] == model
        self.tally["equal to the solo answer"] += text == alone
        self.tally["equal to the other model's"] += text == self.solo[other, subject]
        if text != alone:
            self.different.append((model, alone, text))


def expected_bytes(server: Served, models: list[str]) -> list[int]:
    """What each model takes once it is loaded."""
    for model in models:
        ask(server.port, model, SUBJECTS[0], 1)
    rows = {row["id"]: row for row in server.get_json("/v1/models")["data"]}
    return [rows[model]["size_bytes"] for model in models]


def ids(server: Served, second: Path) -> list[str]:
    rows = server.get_json("/v1/models")["data"]
    first = next(row["id"] for row in rows if row["current"])
    return [first, next(row["id"] for row in rows if second.name in row["id"])]


def measure(
    server: Served, models: list[str], budget: int, options: argparse.Namespace
) -> dict[str, bool]:
    solo = {
        (model, subject): text_of(ask(server.port, model, subject, options.max_tokens))
        for model in models
        for subject in SUBJECTS
    }
    clients = [Client(n, server.port, models, solo, options) for n in range(options.clients)]
    threads = [threading.Thread(target=client.run) for client in clients]
    looks = Looks(budget)
    looks.look(server)
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        looks.look(server)
        time.sleep(LOOK_SECONDS)
    looks.look(server)
    tally = sum((client.tally for client in clients), start=Counter[str]())
    report(clients, tally, looks)
    return claims(clients, tally, looks, alone=options.max_rows == 1)


def claims(
    clients: list[Client], tally: Counter[str], looks: Looks, *, alone: bool
) -> dict[str, bool]:
    """What has to hold. `alone`: no row had company, so answers are equal to the last letter."""
    answers = tally["answers"]
    return {
        "every request is answered": answers > 0 and not any(c.failures for c in clients),
        "every answer is from the right model": tally["of the right model"] == answers,
        "equal to the solo answer": not alone or tally["equal to the solo answer"] == answers,
        "both models came and went": looks.count("model.evicted") >= 2,
        "no load beside the other model": looks.together() == 0,
        "no worker died": looks.count("worker.died") == 0,
        "measured bytes stay under the budget": looks.most_bytes <= looks.budget_bytes,
    }


def report(clients: list[Client], tally: Counter[str], looks: Looks) -> None:
    for name, count in tally.items():
        print(f"{count:6} {name}")
    for model, alone, text in [d for client in clients for d in client.different][:3]:
        print(f"       {model} alone {alone!r}, in company {text!r}")
    for failure in [failure for client in clients for failure in client.failures][:3]:
        print(f"       failed: {failure}")
    if waits := sorted(wait for client in clients for wait in client.waits):
        print(f"{waits[len(waits) // 2]:6.2f} s median wait, {waits[-1]:.2f} s worst")
    print(f"{looks.count('model.loaded'):6} loads, {looks.count('model.evicted')} evictions")
    print(f"{looks.together():6} loads that began while the other model was there")
    print(f"{looks.count('worker.died'):6} deaths of workers")
    share = looks.most_bytes / looks.budget_bytes
    print(f"{looks.most_bytes:,} bytes at most in {looks.looks} looks, {share:.0%} of the budget")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("second", nargs="?", help="a folder, or a model that the library knows")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=16)
    parser.add_argument("--max-rows", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as parent:
        first = default_folder()
        named = options.second
        second = folder_of(named) if named else second_folder(first, Path(parent))
        common = ("--models", str(second), "--log-level", "error")
        with served(str(first), *common) as server:
            models = ids(server, second)
            sizes = expected_bytes(server, models)
        # Room for either with its rows, and not for both.
        budget = max(sizes) + int(0.9 * min(sizes))
        names = " and ".join(f"{m} ({s:,} bytes)" for m, s in zip(models, sizes, strict=True))
        print(f"{names}, budget {budget:,} bytes, {options.clients} clients", flush=True)
        rows = ("--max-rows", str(options.max_rows), "--debug-trace")
        with served(str(first), *common, *rows, "--model-budget-bytes", str(budget)) as server:
            held = measure(server, models, budget, options)
        verdict(held)


if __name__ == "__main__":
    main()
