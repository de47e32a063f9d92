"""How the command line speaks: JSON and lines on stdout, one sentence about an error on stderr, quiet endings."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import TypeVar, TypeVarTuple, cast

import anyio
import click
import msgspec

from ..events.errors import TreeringError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_QUIET = "treering.quiet"
_LINES_AT_ONCE = 1000
_LINE_OF_PIPES = 120
_NARROWEST = 40
_UNSHOWABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Commands(click.Group):
    """A group whose commands end in one sentence where they fail, and quietly where nobody reads on."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            result: object = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _let_go_of_stdout()
            ctx.exit(0)
        except (TreeringError, OSError) as error:
            with suppress(BrokenPipeError):
                click.echo(f"treering: {sentence(error)}", err=True)
            ctx.exit(1)
        return result


def run(function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """Run an async function; of errors that come as a group, the first is raised by itself."""
    try:
        return anyio.run(function, *args)
    except BaseExceptionGroup as group:
        raise _first(group) from group


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(cast("BaseExceptionGroup[BaseException]", error)) if isinstance(error, BaseExceptionGroup) else error


def sentence(error: TreeringError | OSError) -> str:
    """Say in one sentence what went wrong, and where."""
    if isinstance(error, TreeringError):
        return line(str(error))
    what = error.strerror or str(error) or type(error).__name__
    return line(f"{os.fsdecode(error.filename)}: {what}" if isinstance(error.filename, str | bytes) else what)


def prepare() -> None:
    """Make stdout and stderr take any character, and colors be as the environment asks."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # what lacks it is the suppressed case
    ctx = click.get_current_context()
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    elif os.environ.get("FORCE_COLOR"):
        ctx.color = True


def echo_json(value: object) -> None:
    """Write one JSON value on a line."""
    click.echo(as_json(value))


def as_json(value: object) -> bytes:
    """Encode a value, half surrogate pairs and all."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        import json

        return json.dumps(msgspec.to_builtins(value)).encode()


def quieted(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    """Note that nothing is to be said beside what was asked for."""
    ctx.meta[_QUIET] = value


quiet_option = click.option(
    "-q", "--quiet", is_flag=True, expose_value=False, callback=quieted, help="Leave out counts and progress on stderr."
)
"""Say nothing beside what was asked for; errors and warnings are said all the same."""


def quiet() -> bool:
    """Tell whether counts and progress are to be left out."""
    return bool(click.get_current_context().meta.get(_QUIET))


def tell(message: str) -> None:
    """Say on stderr what was done, or how much there is, unless that is not wanted."""
    if not quiet():
        click.echo(clean(message), err=True)


def echo_lines(lines: Iterable[str]) -> None:
    """Write lines, many at a time."""
    waiting = iter(lines)
    while some := list(islice(waiting, _LINES_AT_ONCE)):
        click.echo("\n".join(some))


def clean(text: str) -> str:
    """Make a text safe to show: what would steer the terminal, or cannot be encoded, becomes U+FFFD."""
    return _UNSHOWABLE.sub("\ufffd", text)


def line(text: str) -> str:
    """Make a text safe to show, and one line of it."""
    return clean(" ".join(text.split()))


def columns() -> int:
    """Return how wide a line may be: the terminal's width, or what is bearable in a pipe."""
    if not sys.stdout.isatty():
        return _LINE_OF_PIPES
    return max(_NARROWEST, shutil.get_terminal_size().columns)


def _let_go_of_stdout() -> None:
    """Have the interpreter's last flush go nowhere, since nobody reads it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
