"""`headrace completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click

EXAMPLE = """\b
Examples:
  eval "$(headrace completion bash)"                   # in ~/.bashrc
  eval "$(headrace completion zsh)"                    # in ~/.zshrc
  headrace completion fish > ~/.config/fish/completions/headrace.fish
"""


@click.command(epilog=EXAMPLE)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that lets SHELL complete the commands and options of headrace."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = context.find_root().command
    click.echo(kind(root, {}, "headrace", "_HEADRACE_COMPLETE").source())
