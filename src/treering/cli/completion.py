"""`treering completion`: what makes a shell complete commands, options and sessions."""

from __future__ import annotations

import click

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_TREERING_COMPLETE"


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands and sessions.

    SHELL is bash, zsh or fish. Sessions are completed by their ids.

    \b
    Examples:
      eval "$(treering completion bash)"                                   in ~/.bashrc
      eval "$(treering completion zsh)"                                    in ~/.zshrc
      treering completion fish > ~/.config/fish/completions/treering.fish
    """
    from click.shell_completion import get_completion_class

    chosen = get_completion_class(shell)
    assert chosen is not None  # click brings these three
    click.echo(chosen(ctx.find_root().command, {}, "treering", _VARIABLE).source())
