"""Whether models fit, as JSON for GET /fit and as a table for the command line. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import attrs

from headrace.actors.fit import Fit, fit
from headrace.actors.machine import GB, Machine, skus
from headrace.actors.provision import RAM_SHARE
from headrace.actors.reports import ModelReport
from headrace.runtime.contracts import ModelInfo


@attrs.frozen
class Asked:
    """A model at one length on this machine. `usable_bytes` is what models may take."""

    machine: Machine
    info: ModelInfo
    context_tokens: int
    usable_bytes: int
    chunk_tokens: int

    def on_this_machine(self) -> Fit:
        return fit(
            self.info,
            self.context_tokens,
            self.usable_bytes,
            self.chunk_tokens,
            self.machine.bandwidth_bytes,
        )

    def on(self, machine: Machine) -> Fit:
        usable_bytes = int(machine.ram_bytes * RAM_SHARE)
        return fit(
            self.info,
            self.context_tokens,
            usable_bytes,
            self.chunk_tokens,
            machine.bandwidth_bytes,
        )


def body(asked: Asked, measured: tuple[float, str] | None = None) -> dict[str, Any]:
    """Wire contract 13.5. `measured` is a rate in tokens a second, and when it was taken."""
    report = attrs.asdict(asked.on_this_machine())
    del report["context_tokens"]
    rate, at = measured or (None, None)
    return {
        "machine": _machine(asked.machine),
        "model": asked.info.id,
        "context_tokens": asked.context_tokens,
        "report": report,
        "measured_decode_tps": rate,
        "measured_at": at,
        "sku_matrix": [_sku(asked, machine) for machine in skus()],
    }


def measured(model: ModelReport, now: float, clock: float) -> tuple[float, str] | None:
    """The rate at which a lone row decoded last, and when, where there was one. `now` is on the
    run's clock, `clock` the same instant in Unix seconds."""
    if model.decoding is None:
        return None
    at = datetime.fromtimestamp(clock - (now - model.decoding.at), UTC)
    return model.decoding.tokens_per_second, at.isoformat(timespec="milliseconds")


def _machine(machine: Machine) -> dict[str, Any]:
    speed = machine.bandwidth_bytes
    return {
        "chip": machine.chip,
        "ram_bytes": machine.ram_bytes,
        "bandwidth_gbs": None if speed is None else speed / GB,
    }


def _sku(asked: Asked, machine: Machine) -> dict[str, Any]:
    found = asked.on(machine)
    return {
        "sku": machine.chip,
        "ram_gb": machine.ram_bytes // GB,
        "fits": found.fits,
        "max_context": found.max_safe_context,
        "decode_tps": found.predicted_decode_tps,
    }


def table(asked: Asked) -> list[tuple[str, str]]:
    """The report as lines of a name and a value."""
    found = asked.on_this_machine()
    speed = found.predicted_decode_tps
    return [
        ("model", asked.info.id),
        ("machine", f"{asked.machine.chip}, {_gb(asked.machine.ram_bytes)}"),
        ("context", f"{found.context_tokens} tokens of {asked.info.context_window}"),
        ("weights", _gb(found.weights_bytes)),
        ("KV cache", _gb(found.kv_bytes)),
        ("prefill", _gb(found.transient_bytes)),
        ("total", f"{_gb(found.total_bytes)} of {_gb(found.usable_bytes)} usable"),
        ("fits", "yes" if found.fits else "no"),
        ("longest context", f"{found.max_safe_context} tokens"),
        ("decode at most", "unknown" if speed is None else f"{speed:.1f} tokens/s"),
    ]


def _gb(count_bytes: int) -> str:
    return f"{count_bytes / GB:.2f} GB"
