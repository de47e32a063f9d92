"""The commands by name, each loaded on demand, so that help, completion and the version are fast.

Nothing of the library is imported before a command is.

The help lines in the list of commands are repeated here; a test compares them with the commands' own.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from keyword import iskeyword
from typing import Any, NamedTuple, cast

import click
from click.exceptions import Exit

_OTHER_NAMES = {
    **dict.fromkeys(("list", "ls"), ("sessions",)),
    **dict.fromkeys(("show", "view", "cat", "print", "read"), ("context", "entries")),
    **dict.fromkeys(("stats", "status", "describe", "usage"), ("info",)),
    **dict.fromkeys(("rm", "remove", "del", "drop"), ("delete",)),
    **dict.fromkeys(("find", "grep"), ("search",)),
    **dict.fromkeys(("log", "logs", "history", "messages"), ("entries", "context")),
    **dict.fromkeys(("tail", "watch"), ("follow",)),
    **dict.fromkeys(("new", "ask", "run"), ("chat",)),
    **dict.fromkeys(("continue", "open", "pick"), ("resume",)),
    **dict.fromkeys(("check", "repair", "fix", "fsck", "verify"), ("doctor",)),
    **dict.fromkeys(("mv", "title", "name"), ("rename",)),
    **dict.fromkeys(("restore", "undelete"), ("unarchive",)),
    **dict.fromkeys(("branch", "branches"), ("tree",)),
    **dict.fromkeys(("bookmark", "tag"), ("label",)),
    "prune": ("gc",),
    "load": ("import",),
}
"""Names that other programs use for these commands."""


class Lazy(NamedTuple):
    """A command whose module is imported when it is used.

    Attributes:
        module: The module of this package, in which the function has the command's name: `import_` for `import`,
            `hand_over` for `hand-over`.
        help: The first line of its help.
    """

    module: str
    help: str


class Section(NamedTuple):
    """A group of commands under a heading."""

    title: str
    commands: Mapping[str, Lazy]


def _option_of(command: click.Command, name: str) -> click.Option | None:
    options = [each for each in command.params if isinstance(each, click.Option)]
    return next((each for each in options if name in (*each.opts, *each.secondary_opts)), None)


@contextmanager
def _in_one_sentence() -> Generator[None]:
    try:
        yield
    except (click.ClickException, click.Abort, Exit):
        raise
    except BrokenPipeError:
        from .output import discard_stdout

        discard_stdout()
        raise Exit(0) from None
    except Exception as error:
        from ..events.errors import TreeringError
        from .messages import sentence

        if not isinstance(error, TreeringError | OSError):
            raise
        with suppress(BrokenPipeError):
            click.echo(f"treering: {sentence(error)}", err=True)
        raise Exit(1) from error
    except KeyboardInterrupt:
        from .output import INTERRUPTED

        raise Exit(INTERRUPTED) from None


class Commands(click.Group):
    """A click group that takes options of its commands before them, too, and suggests commands for one it has not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options before the command; one that only the command has is given to it."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            moved = self._moved(ctx, given, error.option_name)
            if moved is None:
                raise
        return self.parse_args(ctx, moved)

    def _moved(self, ctx: click.Context, args: Sequence[str], option: str) -> list[str] | None:
        """Return the arguments with an option behind the command that has it; None if no command there has."""
        at = next((n for n, each in enumerate(args) if each.partition("=")[0] == option), len(args))
        for end in (at + 1, at + 2):  # its value may be the name of a command, too
            behind, known = self._behind(ctx, args, end, option)
            if known is not None and (known.is_flag or "=" in args[at] or end == at + 2):
                return [*args[:at], *args[end:behind], *args[at:end], *args[behind:]]
        return None

    def _behind(
        self, ctx: click.Context, args: Sequence[str], start: int, option: str
    ) -> tuple[int, click.Option | None]:
        """Return where the arguments of the innermost command begin that has an option, and the option."""
        group: click.Command = self
        found: tuple[int, click.Option | None] = (0, None)
        for n, each in enumerate(args[start:], start + 1):
            command = group.get_command(ctx, each) if isinstance(group, click.Group) else None
            if command is not None:
                known = _option_of(command, option)
                group, found = command, found if known is None else (n, known)
            elif group is not self and not each.startswith("-"):
                break
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; suggest similar ones if it does not exist.

        Raises:
            UsageError: There is no such command.
        """
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            suggestions = self._suggestions(ctx, args[0])
            hint = f" Did you mean {' or '.join(map(repr, suggestions))}?" if suggestions else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def _suggestions(self, ctx: click.Context, name: str) -> list[str]:
        """Return the commands for which other programs use this name, else commands with similar names."""
        from difflib import get_close_matches

        return [*_OTHER_NAMES.get(name.lower(), ())] or get_close_matches(name.lower(), self.list_commands(ctx), 2)


class LazyCommands(Commands):
    """A click group that loads its commands on demand.

    They report an error in one sentence, and exit quietly when the reader of stdout has gone.

    Args:
        sections: The commands, in the order in which they are listed.
        **options: The options of every click group.
    """

    def __init__(self, *, sections: Sequence[Section] = (), **options: Any) -> None:  # noqa: ANN401  # as click has it
        super().__init__(**options)
        self.sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [name for section in self.sections for name in section.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load and return a command, or return None if there is none of this name."""
        loaded = super().get_command(ctx, cmd_name)
        if loaded is not None:
            return loaded
        listed = next((each for section in self.sections if (each := section.commands.get(cmd_name))), None)
        if listed is None:
            return None
        module = import_module(f".{listed.module}", __package__)
        function = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name.replace("-", "_")
        command = cast("click.Command", getattr(module, function))  # as listed in the section
        self.add_command(command, cmd_name)
        return command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401  # click's own type
    ) -> click.Context:
        """Parse the arguments; this also prints help and the version."""
        with _in_one_sentence():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command.

        Raises:
            UsageError: The command has no such option; the error says so if it belongs before the command.
        """
        try:
            with _in_one_sentence():
                result: object = super().invoke(ctx)
                sys.stdout.flush()
                return result
        except click.NoSuchOption as error:
            if error.ctx is None or error.ctx is ctx or _option_of(self, error.option_name) is None:
                raise
            instead = f"{ctx.command_path} {error.option_name} {error.ctx.info_name}"
            raise click.UsageError(
                f"No such option {error.option_name!r} here; put it before the command: {instead}", error.ctx
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading them."""
        widest = max(map(len, self.list_commands(ctx)), default=0)
        for section in self.sections:
            with formatter.section(section.title):
                formatter.write_dl([(name.ljust(widest), command.help) for name, command in section.commands.items()])
