"""What people give a command: options and arguments that several commands share, and completion in a shell.

It knows no command, and opens no session but to complete its id.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem, get_completion_class

from ..actors.catalog.settings import ROOT
from ..events.errors import TreeringError
from .home import SERVER, TOKEN_FILE, Home
from .output import QUIET, run
from .rows import name_of

if TYPE_CHECKING:
    from ..projections.summary import SessionSummary


F = TypeVar("F", bound=Callable[..., Any])


class Count(click.ParamType[int]):
    """A whole number.

    Args:
        min: The least number that is allowed.
    """

    name = "number"

    def __init__(self, *, min: int) -> None:
        self._min = min

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a number."""
        try:
            number = int(value)
        except ValueError:
            number = None
        if number is None or number < self._min:
            self.fail(f"{str(value)!r} is not a whole number of {self._min} or more", param, ctx)
        return number


_SPAN = re.compile(r"(\d+)([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Moment(click.ParamType[datetime]):
    """A time: `2026-01-31`, `2026-01-31T14:30`, or `90m`, `12h`, `7d`, `2w` ago; in the system's zone by default.

    Args:
        ahead: Whether `90m` and the like are from now on instead.
    """

    name = "time"

    def __init__(self, *, ahead: bool = False) -> None:
        self._sign = 1 if ahead else -1

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parse a time."""
        if isinstance(value, datetime):
            return value
        try:
            if span := _SPAN.fullmatch(value):
                return datetime.now(UTC) + self._sign * timedelta(**{_UNITS[span[2]]: int(span[1])})
            return datetime.fromisoformat(value).astimezone()
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a time: use a form like 2026-01-31, 2026-01-31T14:30 or 7d", param, ctx)


class FormatName(click.ParamType[str]):
    """The name of a format. Packages may add formats, so all names are looked up when they are asked for.

    Args:
        names: Returns all names.
        known: Some of them, for which the others need not be looked up.
    """

    name = "format"

    def __init__(self, names: Callable[[], Sequence[str]], known: Collection[str] = ()) -> None:
        self._names = names
        self._known = known

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return all names, for the help."""
        return click.Choice(self._names()).get_metavar(param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin like this."""
        return click.Choice(self._names()).shell_complete(ctx, param, incomplete)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of a format, or refuse it and list the others."""
        return value if value in self._known else click.Choice(self._names()).convert(value, param, ctx)


def _programs_with_a_home() -> Sequence[str]:
    """Return the names of the programs that keep their sessions in a known folder."""
    from ..formats.programs import homes

    return (*homes(os.environ),)


def from_option(help: str) -> Callable[[F], F]:
    """Return the option that names programs whose sessions are meant."""
    named, help = FormatName(_programs_with_a_home), f"{help}; can be given several times."
    return click.option("--from", "from_programs", multiple=True, type=named, help=help)


def model_option(help: str, show_default: str | None = None) -> Callable[[F], F]:
    """Return the option that names a model."""
    return click.option(
        "--model",
        "model_name",
        metavar="NAME",
        envvar="TREERING_MODEL",
        show_envvar=True,
        show_default=show_default,
        help=help,
    )


def port_option(help: str) -> Callable[[F], F]:
    """Return the option for the port of a server."""
    kind = click.IntRange(0, 65535)
    return click.option("--port", metavar="PORT", default=8765, show_default=True, type=kind, help=help)


def base_url_option(help: str) -> Callable[[F], F]:
    """Return the option that says where a model is served."""
    return click.option("--base-url", metavar="URL", envvar="TREERING_BASE_URL", show_envvar=True, help=help)


leaf_option = click.option(
    "--leaf", metavar="ID", help="Use this entry instead of the leaf: its id, or the beginning of it."
)
"""An entry to use in place of the session's leaf."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
"""Output for programs."""


root_option = click.option(
    "--root",
    metavar="ROOT",
    type=click.Path(file_okay=False, readable=False),
    help=f"The directory of the sessions, or the address of a database, such as postgresql://user@host/database; by "
    f"default {ROOT}, or the platform's directory for application data.",
)
"""The option for another root, to pass to `Home.at`."""


def _noted_as(key: str) -> Callable[[click.Context, click.Parameter, object], None]:
    """Return the callback of an option whose value is noted in the context of the command, if it is given."""

    def note(ctx: click.Context, _: click.Parameter, value: object) -> None:
        if value:
            ctx.meta[key] = value

    return note


_server_option = click.option(
    "--server",
    metavar="URL",
    envvar="TREERING_SERVER",
    expose_value=False,
    callback=_noted_as(SERVER),
    help="Use the sessions of a server instead, such as http://127.0.0.1:8765.",
)
_token_option = click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    expose_value=False,
    callback=_noted_as(TOKEN_FILE),
    help="The file with the token for the server; by default TREERING_TOKEN.",
)


def home_options(command: F) -> F:
    """Add the options that say where sessions are: a root, or a server. `Home.at` knows what was given."""
    return root_option(_server_option(_token_option(command)))


quiet_option = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=_noted_as(QUIET),
    help="Suppress counts and progress on stderr.",
)
"""Suppress counts and progress, but not errors and warnings."""


def session_completion(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete session ids, or file names if no id matches."""
    try:
        rows = run(_rows, Home.at(ctx.params.get("root")))
    except (TreeringError, OSError):  # completion must not print errors
        rows = []
    items = [CompletionItem(row.id, help=name_of(row)) for row in rows if row.id.startswith(incomplete)]
    return items or [CompletionItem(incomplete, type="file")]


async def _rows(home: Home) -> list[SessionSummary]:
    async with home.opened() as host:
        return await host.list_sessions()


session_file = click.argument(
    "file", metavar="SESSION", type=click.Path(readable=False), shell_complete=session_completion
)
"""The session to read: the path of its file or, if there is no such file, a text that a root resolves."""

session_argument = click.argument("session", metavar="SESSION", shell_complete=session_completion)
"""One session: an id, the beginning of one, a name, `last`, or the path of a file."""

sessions_argument = click.argument(
    "sessions", metavar="SESSION...", nargs=-1, required=True, shell_complete=session_completion
)
"""One or more sessions."""


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
    chosen = get_completion_class(shell)
    assert chosen is not None  # click has these three
    click.echo(chosen(ctx.find_root().command, {}, "treering", _VARIABLE).source())
