"""`slotlog completion`: what a shell has to be told so that Tab completes commands and options."""

from __future__ import annotations

import click


@click.command(short_help="Let a shell complete commands.")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the lines that make SHELL complete slotlog's commands and options.

    \b
    Examples:
      eval "$(slotlog completion bash)"                                  in ~/.bashrc
      eval "$(slotlog completion zsh)"                                   in ~/.zshrc
      slotlog completion fish > ~/.config/fish/completions/slotlog.fish
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(context.find_root().command, {}, "slotlog", "_SLOTLOG_COMPLETE").source())
