"""`treering completion`: shell completion of commands, options and sessions."""

from __future__ import annotations

import click

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_TREERING_COMPLETE"


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a completion script for a shell.

    SHELL is bash, zsh or fish. The script completes commands, options and session ids.

    \b
    Examples:
      eval "$(treering completion bash)"                                   in ~/.bashrc
      eval "$(treering completion zsh)"                                    in ~/.zshrc
      treering completion fish > ~/.config/fish/completions/treering.fish
    """
    from click.shell_completion import get_completion_class

    chosen = get_completion_class(shell)
    assert chosen is not None  # click has these three
    click.echo(chosen(ctx.find_root().command, {}, "treering", _VARIABLE).source())
