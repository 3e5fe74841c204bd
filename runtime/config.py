"""Where settings come from: defaults < config file < environment < command line.

A setting `queue_limit` is `queue_limit = 64` in a TOML file, `HEADRACE_QUEUE_LIMIT=64` in the
environment and `--queue-limit 64` on the command line. What is unknown stops the start.
"""

from __future__ import annotations

import difflib
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import msgspec
import platformdirs

from headrace.runtime.errors import SettingError
from headrace.runtime.settings import Settings, checked, kinds, plain

PREFIX = "HEADRACE_"
# Names the config file; it is not a setting, as a file cannot name itself.
CONFIG_VARIABLE = "HEADRACE_CONFIG"
# Where a client of a server finds it, and the key it sends; the server itself reads neither.
URL_VARIABLE = "HEADRACE_URL"
KEY_VARIABLE = "HEADRACE_API_KEY"
NO_SETTINGS = frozenset({CONFIG_VARIABLE, URL_VARIABLE, KEY_VARIABLE})
HIDDEN = "(hidden)"


@attrs.frozen
class Option:
    """What a command line needs to know to offer one setting.

    `kind` is the type of the value itself: bool, int, float, str, Path, tuple (of texts) or
    dict. `choices` is empty where any value of the kind is allowed.
    """

    name: str
    flag: str
    kind: type
    choices: tuple[str, ...]
    default: Any
    help: str
    secret: bool


@attrs.frozen
class Resolved:
    """One setting as a report shows it; the value of a secret is hidden."""

    name: str
    value: Any
    origin: str


@attrs.frozen
class Resolution:
    """The settings in force and, for each name, the place that set it."""

    settings: Settings
    origins: Mapping[str, str]

    def report(self) -> tuple[Resolved, ...]:
        """One entry for each setting, in the order of `Settings`."""
        return tuple(
            Resolved(option.name, self._shown(option), self.origins[option.name])
            for option in options()
        )

    def _shown(self, option: Option) -> Any:
        value = getattr(self.settings, option.name)
        return HIDDEN if option.secret and value else plain(value)


def options() -> Iterator[Option]:
    """Every setting, in the order of `Settings`."""
    defaults = Settings()
    for field in attrs.fields(Settings):
        kind, choices = _kind(kinds()[field.name])
        yield Option(
            name=field.name,
            flag="--" + field.name.replace("_", "-"),
            kind=kind,
            choices=choices,
            default=getattr(defaults, field.name),
            help=field.metadata["help"],
            secret=field.metadata["secret"],
        )


def usual_file() -> Path:
    """Where the config file is looked for when nobody says where it is."""
    return platformdirs.user_config_path("headrace") / "headrace.toml"


def config_file(chosen: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The file that was chosen, else the one that HEADRACE_CONFIG names, else the usual one if it
    is there. An empty HEADRACE_CONFIG stands for no file."""
    if chosen is not None:
        return chosen
    named = environ.get(CONFIG_VARIABLE)
    if named is not None:
        return Path(named).expanduser() if named else None
    usual = usual_file()
    return usual if usual.is_file() else None


def resolve(
    *,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Resolution:
    """Merge the sources and validate the result.

    `arguments` are those given on the command line, by setting name; None stands for one that
    was not given, and a text for a setting of another type is read like an environment value.
    Raises `SettingError`, which names the setting and the place that set it wrongly.
    """
    values: dict[str, Any] = {}
    origins = dict.fromkeys(kinds(), "default")
    for origin, name, value in (
        *_from_file(file),
        *_from_environment(environ or {}),
        *_from_arguments(arguments or {}),
    ):
        values[name] = _from(origin, name, value)
        origins[name] = origin
    return Resolution(Settings(**values), origins)


def read(name: str, text: str) -> Any:
    """The value that a text stands for: itself for a text setting, else JSON."""
    kind, _ = _kind(kinds()[name])
    if kind in (str, Path):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise SettingError(f"{name}: expected JSON, {_EXAMPLES[kind]}") from None


_EXAMPLES: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: 'a list like ["a","b"]',
    dict: 'an object like {"a":"b"}',
}

_Entries = Iterator[tuple[str, str, Any]]


def _from_file(file: Path | None) -> _Entries:
    if file is None:
        return
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"config file {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"config file {file} is not TOML: {error}") from error
    for name, value in table.items():
        yield f"file {file}", _known(name, f"file {file}"), value


def _from_environment(environ: Mapping[str, str]) -> _Entries:
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX) or variable in NO_SETTINGS:
            continue
        origin = f"environment {variable}"
        name = _known(variable.removeprefix(PREFIX).lower(), origin)
        yield origin, name, text


def _from_arguments(arguments: Mapping[str, Any]) -> _Entries:
    for name, value in arguments.items():
        if value is not None:
            origin = "command line --" + name.replace("_", "-")
            yield origin, _known(name, origin), value


def _from(origin: str, name: str, value: Any) -> Any:
    is_text = isinstance(value, str) and not origin.startswith("file ")
    try:
        return checked(name, read(name, value) if is_text else value)
    except SettingError as error:
        raise SettingError(f"{error} ({origin})") from None


def _known(name: str, origin: str) -> str:
    if name in kinds():
        return name
    near = difflib.get_close_matches(name, kinds(), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise SettingError(f"unknown setting {name} ({origin}){hint}")


def _kind(annotation: Any) -> tuple[type, tuple[str, ...]]:
    """The plain type of an annotation and its choices: bounds and `| None` are left out."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _kind(typing.get_args(annotation)[0])
    if origin in (types.UnionType, typing.Union):
        return _kind(next(a for a in typing.get_args(annotation) if a is not types.NoneType))
    if origin is Literal:
        return str, typing.get_args(annotation)
    return origin or annotation, ()
