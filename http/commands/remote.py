"""The server that a command speaks to: how it is found, and what to say when it is not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from headrace.http.options import resolved
from headrace.runtime.config import KEY_VARIABLE, URL_VARIABLE

if TYPE_CHECKING:
    import httpx

    from headrace.http.run_file import Running

Command = TypeVar("Command", bound=Callable[..., Any])

USUAL_URL = "http://127.0.0.1:8080"
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0


class NoServer(click.ClickException):
    exit_code = 3


class NotAllowed(click.ClickException):
    """The server wants a key, or another one."""


@attrs.frozen
class Remote:
    """Where a server is, and the key that it is sent."""

    url: str
    key: str | None = attrs.field(default=None, repr=False)

    def options(self) -> dict[str, Any]:
        """For a client of httpx. The server is near: no proxy stands before it."""
        import ssl

        import httpx

        return {
            "base_url": self.url,
            "headers": {} if self.key is None else {"Authorization": f"Bearer {self.key}"},
            "timeout": httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            "trust_env": False,
            # The machine's certificates; SSL_CERT_FILE names others.
            "verify": ssl.create_default_context() if self.url.startswith("https:") else False,
        }

    def get(self, path: str) -> Any:
        """The JSON at a path. Raises `NoServer`, `NotAllowed`, or another `ClickException`."""
        import httpx

        try:
            with httpx.Client(**self.options()) as client:
                response = client.get(path)
        except httpx.TransportError as error:
            raise self.gone(error) from None
        if response.is_error:
            raise refusal(response)
        try:
            return response.json()
        except ValueError:
            raise click.ClickException(f"{self.url} is no headrace server") from None

    def gone(self, error: Exception) -> NoServer:
        reason = f": {error}" if str(error) else ""
        return NoServer(
            f"no server answers at {self.url}{reason}\n"
            f"Start one with `headrace serve`, or name another with --url or {URL_VARIABLE}."
        )


def refusal(response: httpx.Response) -> click.ClickException:
    """What a server said when it refused, in its own words. Its body must have been read."""
    try:
        said = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        said = f"the server answered {response.status_code}"
    if response.status_code == 401:
        return NotAllowed(f"{said}\nThe key is taken from {KEY_VARIABLE}.")
    return click.ClickException(said)


def server_options(command: Command) -> Command:
    """Give a command `--url` and `--home`, from which `remote` finds its server."""
    command = click.option(
        "--home",
        type=click.Path(path_type=Path),
        help="folder of models, and of what runs [the setting]",
    )(command)
    return click.option(
        "--url",
        envvar=URL_VARIABLE,
        help=f"the server [{URL_VARIABLE}, else the one that runs here, else {USUAL_URL}]",
    )(command)


def home_of(home: Path | None) -> Path:
    return home or resolved(None, {}).settings.home


def remote(url: str | None, home: Path | None) -> Remote:
    """The server that was named, else the one that runs. Raises `UsageError` for several."""
    key = os.environ.get(KEY_VARIABLE) or None
    if url:
        return Remote(checked(url), key)
    from headrace.http.run_file import running

    found = running(home_of(home))
    return Remote(one_of(found).url if found else USUAL_URL, key)


def one_of(found: tuple[Running, ...]) -> Running:
    if len(found) > 1:
        urls = ", ".join(server.url for server in found)
        raise click.UsageError(f"several servers run: {urls}; choose one with --url")
    return found[0]


def checked(url: str) -> str:
    """Without what clients of the protocols add to it."""
    if not url.startswith(("http://", "https://")):
        raise click.UsageError(f"--url: {url} begins with neither http:// nor https://")
    return url.rstrip("/").removesuffix("/v1")
