"""`headrace config`: every setting, its value, and where it comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import msgspec

from headrace.http.commands.shown import columns
from headrace.http.options import resolved, setting_options
from headrace.runtime.config import Option, Resolution, Resolved, options

EXAMPLE = """\b
Examples:
  headrace config
  headrace config --toml > ~/.config/headrace/headrace.toml
  headrace config --json --port 9000
"""


@click.command(epilog=EXAMPLE)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@click.option("--toml", "as_toml", is_flag=True, help="print a config file to start from")
@setting_options
def config(as_json: bool, as_toml: bool, config_file: Path | None, **arguments: Any) -> None:
    """Show every setting, its value, and where it comes from.

    The places are, and a later one wins: the default, the config file, the environment, the
    command line. Options are those of `headrace serve`, to try them out. Keys are not shown.
    """
    resolution = resolved(config_file, arguments)
    if as_json:
        rows = [
            {"name": found.name, "value": found.value, "origin": found.origin}
            for found in resolution.report()
        ]
        click.echo(json.dumps(rows, indent=2))
    elif as_toml:
        click.echo(toml(resolution), nl=False)
    else:
        click.echo(columns([("SETTING", "VALUE", "FROM"), *map(_cells, resolution.report())]))


def toml(resolution: Resolution) -> str:
    """A config file that says the same as the settings in force, but for secrets.

    What is as it would be anyway stands in comments.
    """
    lines = ["# Settings of headrace. A line without its `#` counts.", ""]
    for option, found in zip(options(), resolution.report(), strict=True):
        lines += [f"# {option.help}", _line(option, found), ""]
    return "\n".join(lines)


def _line(option: Option, found: Resolved) -> str:
    if option.secret or found.value is None:
        return f"# {option.name} = {_EXAMPLES[option.kind]}"
    line = f"{option.name} = {toml_value(found.value)}"
    return f"# {line}" if found.origin == "default" else line


_EXAMPLES: dict[type, str] = {
    bool: "true",
    int: "1000000",
    float: "1.0",
    str: '"..."',
    Path: '"..."',
    tuple: '["..."]',
    dict: "{}",
}


def toml_value(value: Any) -> str:
    """A plain value as TOML writes it: as JSON does, but for tables."""
    if isinstance(value, dict):
        inner = ", ".join(f"{_text(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return _text(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


def _text(text: str) -> str:
    # JSON leaves this one as it is, TOML does not.
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")


def _cells(found: Resolved) -> tuple[str, str, str]:
    shown = "none" if found.value is None else found.value
    return found.name, shown if isinstance(shown, str) else json.dumps(shown), found.origin
