"""Every setting as a command-line option, made from the list of settings itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from headrace.runtime.config import (
    CONFIG_VARIABLE,
    Option,
    Resolution,
    config_file,
    options,
    resolve,
    usual_file,
)
from headrace.runtime.errors import SettingError

Command = TypeVar("Command", bound=Callable[..., Any])

SCALARS: dict[type, Any] = {
    int: click.INT,
    float: click.FLOAT,
    Path: click.Path(path_type=Path),
}


def setting_options(command: Command) -> Command:
    """Give a command one option for each setting, and `--config`."""
    for option in reversed(list(options())):
        command = click.option(_flags(option), option.name, **_declared(option))(command)
    return click.option(
        "--config",
        "config_file",
        type=click.Path(path_type=Path, dir_okay=False),
        help=f"settings as a TOML file [{CONFIG_VARIABLE}, else {_shown(usual_file())}]",
    )(command)


def _shown(file: Path) -> str:
    """With `~`, so that the help is the same for everybody."""
    # Unlike `Path.home`, it does not fail for a user without one, as containers have.
    home = Path(os.path.expanduser("~"))
    return f"~/{file.relative_to(home)}" if file.is_relative_to(home) else str(file)


def _flags(option: Option) -> str:
    no = option.flag.replace("--", "--no-", 1)
    return f"{option.flag}/{no}" if option.kind is bool else option.flag


def _declared(option: Option) -> dict[str, Any]:
    """How click is to read a setting. None stands for an option that was not given."""
    declared: dict[str, Any] = {"default": None, "help": option.help}
    if option.choices:
        declared["type"] = click.Choice(option.choices)
    elif option.kind is tuple:
        declared |= {"multiple": True, "metavar": "TEXT", "help": f"{option.help}; repeatable"}
    elif option.kind is dict:
        declared["metavar"] = "JSON"
    else:
        declared["type"] = SCALARS.get(option.kind)
    if option.secret or option.kind in (tuple, dict):
        return declared
    shown = "none" if option.default is None else option.default
    return declared | {"help": f"{option.help} [{shown}]"}


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """What stood on the command line. A list may also be written as one JSON text."""
    return {
        name: _one_json(value) if isinstance(value, tuple) else value
        for name, value in arguments.items()
        if value is not None and value != ()
    }


def resolved(file: Path | None, arguments: dict[str, Any]) -> Resolution:
    """The settings in force. Raises `UsageError`, which names the setting and its place."""
    file = config_file(file, os.environ)
    try:
        return resolve(file=file, environ=os.environ, arguments=given(arguments))
    except SettingError as error:
        raise click.UsageError(str(error)) from None


def _one_json(values: Sequence[str]) -> Sequence[str] | str:
    return values[0] if len(values) == 1 and values[0].startswith("[") else values
