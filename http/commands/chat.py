"""`headrace chat`: a conversation in a terminal, or one question in a pipe."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.http.commands.completing import models
from headrace.http.commands.conversation import HELP, Conversation
from headrace.http.commands.remote import Remote, remote, server_options
from headrace.http.commands.shown import harmless

if TYPE_CHECKING:
    from headrace.http.commands.asking import Say

EXAMPLE = """\b
Examples:
  headrace chat
  headrace chat --model smollm2-135m-instruct --system "Answer in one sentence."
  echo "What is a mill wheel?" | headrace chat --max-tokens 60
"""
PROMPT = "> "


def _fields(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, Any]:
    """`seed=1` and `stop="x"`; the server says what it thinks of them."""
    fields = {}
    for value in values:
        name, given, text = value.partition("=")
        try:
            fields[name] = json.loads(text)
        except ValueError:
            given = ""
        if not (name and given):
            raise click.BadParameter(f"{value} is not like seed=1 or 'stop=\"x\"'")
    return fields


@click.command(epilog=EXAMPLE)
@click.option(
    "--model", "-m", shell_complete=models, help="who answers [the server's current model]"
)
@click.option("--system", help="what the model is told beforehand")
@click.option("--max-tokens", type=click.IntRange(min=1), help="most tokens of an answer")
@click.option("--temperature", type=click.FloatRange(0, 2), help="0: the likeliest answer")
@click.option(
    "--field",
    "more",
    metavar="NAME=JSON",
    multiple=True,
    callback=_fields,
    help="another field of each request, like seed=1; repeatable",
)
@server_options
def chat(
    model: str | None,
    system: str | None,
    max_tokens: int | None,
    temperature: float | None,
    more: dict[str, Any],
    url: str | None,
    home: Path | None,
) -> None:
    """Talk with a model of a running server. Answers appear as they are made.

    Ctrl-C cancels an answer and not the program; Ctrl-D leaves. Lines that begin with a slash are
    commands: /new, /model NAME, /system TEXT, /quit, and /help lists them. In a pipe, all of
    standard input is one question, and only the answer goes to standard output.
    """
    chosen: dict[str, Any] = {"max_tokens": max_tokens, "temperature": temperature}
    fields = {name: value for name, value in chosen.items() if value is not None} | more
    conversation = Conversation(model=model, system=system, fields=fields)
    server = remote(url, home)
    if sys.stdin.isatty():
        _talk(server, conversation)
    else:
        _answer_once(server, conversation, sys.stdin.read())


def _answer_once(server: Remote, conversation: Conversation, question: str) -> None:
    if not question.strip():
        raise click.UsageError("standard input is empty: there is nothing to answer")
    from headrace.http.commands.asking import ask

    answer = ask(server, conversation.body(question.strip()), _sayer())
    if answer.text:
        click.echo()
    if answer.trouble is not None:
        raise answer.trouble
    if answer.cancelled:
        raise click.Abort


def _talk(server: Remote, conversation: Conversation) -> None:
    # Makes the line that is typed editable, and the ones before it come back.
    with suppress(ImportError):
        import readline  # noqa: F401
    # Here, so that the first question need not wait for it.
    import headrace.http.commands.asking  # noqa: F401

    # So that one who is not there is told before anything is typed.
    server.get("/v1/models")
    _note(f"{server.url}; /help lists the commands, Ctrl-D leaves.")
    while (line := _line()) is not None:
        if line.startswith("/"):
            said = HELP if line == "/help" else conversation.obey(line)
            if said is None:
                return
            _note(said)
        elif line:
            # A Ctrl-C in the instant before the answer begins, or after it has ended.
            with suppress(KeyboardInterrupt):
                _turn(server, conversation, line)


def _line() -> str | None:
    """What was typed; nothing for a Ctrl-C, None for a Ctrl-D."""
    try:
        return input(PROMPT).strip()
    except KeyboardInterrupt:
        click.echo()
        return ""
    except EOFError:
        click.echo()
        return None


def _turn(server: Remote, conversation: Conversation, question: str) -> None:
    from headrace.http.commands.asking import ask

    answer = ask(server, conversation.body(question), _sayer())
    click.echo()
    conversation.keep(question, answer.text)
    if answer.cancelled:
        _note("(cancelled)")
    if answer.trouble is not None:
        _note(answer.trouble.format_message())


def _sayer() -> Say:
    """Writes pieces as they come; thoughts are dim, and not part of the answer. To a file or a
    pipe goes the answer alone, as it is."""
    if not sys.stdout.isatty():
        return lambda piece, thought: None if thought else click.echo(piece, nl=False)

    def say(piece: str, thought: bool) -> None:
        shown = harmless(piece)
        click.echo(click.style(shown, dim=True) if thought else shown, nl=False)

    return say


def _note(text: str) -> None:
    click.secho(text, dim=True, err=True)
