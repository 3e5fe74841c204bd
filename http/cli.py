"""The command line: `headrace`, and the table of its commands.

A command imports what it needs when it runs, so that `headrace --help` answers at once.
"""

from __future__ import annotations

import click

from headrace.http.commands.bench import bench
from headrace.http.commands.chat import chat
from headrace.http.commands.completion import completion
from headrace.http.commands.config import config
from headrace.http.commands.doctor import doctor
from headrace.http.commands.fit import fit
from headrace.http.commands.ls import ls
from headrace.http.commands.ps import ps
from headrace.http.commands.pull import pull
from headrace.http.commands.rm import rm
from headrace.http.commands.serve import serve
from headrace.http.commands.stop import stop

COMMANDS = (serve, chat, pull, ls, rm, ps, stop, bench, fit, doctor, config, completion)
EPILOG = """\b
Exit codes:
  0  it is done
  1  it could not be done, or the answer is no (fit, doctor, bench)
  2  the command line, a variable or the config file is wrong
  3  no server answers

\b
Examples:
  headrace serve                  # the default model, on http://127.0.0.1:8080
  headrace chat                   # in another terminal
"""


class InOrder(click.Group):
    """Lists its commands in the order in which people need them."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=InOrder,
    commands={str(command.name): command for command in COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
)
@click.version_option(package_name="headrace", prog_name="headrace")
def main() -> None:
    """An inference server for MLX models in which a request is a scope."""
