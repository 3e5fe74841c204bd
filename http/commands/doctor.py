"""`headrace doctor`: what this machine offers a model."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import msgspec

from headrace.http.options import resolved

EXAMPLE = """\b
Examples:
  headrace doctor
  headrace doctor --json
"""


@click.command(epilog=EXAMPLE)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@click.option("--home", type=click.Path(path_type=Path), help="folder of models")
def doctor(as_json: bool, home: Path | None) -> None:
    """Tell what this machine offers a model, and what would make it faster.

    The exit code is 1 where something keeps models from running well.
    """
    from headrace.actors.engine.blas import use_fast_blas
    from headrace.actors.engine.doctor import examine
    from headrace.actors.library import DEFAULT_MODEL, library_at

    settings = resolved(None, {"home": home}).settings
    ready = library_at(settings.home, os.environ).find(DEFAULT_MODEL) is not None
    findings = examine(settings.home, use_fast_blas(settings.blas_threads), ready)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(findings)))
    else:
        for finding in findings:
            click.echo(f"{finding.severity:8}{finding.topic}: {finding.text}")
            if finding.advice:
                click.echo(f"{'':8}{finding.advice}")
    sys.exit(any(finding.severity == "problem" for finding in findings))
