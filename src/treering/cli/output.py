"""How the command line speaks: JSON and lines on stdout, one sentence about an error on stderr, quiet endings.

Ctrl-C ends a command with the status 130 wherever it is pressed, once the program has been loaded: while Python still
imports it, nothing of it runs that could.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, NoReturn, TypeVar, TypeVarTuple, cast

import anyio
import click
import msgspec
from click.exceptions import Exit

from ..events.errors import (
    ExportExists,
    InvalidInput,
    NotASession,
    ReadOnly,
    RedactedSession,
    SessionLocked,
    TreeringError,
)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

INTERRUPTED = 130
"""The exit status of a program that Ctrl-C ended, as shells count."""

_AS_OPTIONS: tuple[tuple[type[TreeringError], str, str], ...] = (
    (ExportExists, "overwrite=True", "--force"),
    (InvalidInput, "export without a path, and write the bytes there", "leave out -o, and send stdout there"),
    (RedactedSession, "without `redact`", "without --redact"),
    (
        SessionLocked,
        "open it read-only, or wait until the owner lets go",
        "close it there, or wait; looking at it works",
    ),
    (ReadOnly, "load it with `read_only=True`, or see to its permissions", "see to its permissions"),
)
"""What the library advises programs to do, and what that is on the command line."""

_QUIET = "treering.quiet"
_LINES_AT_ONCE = 1000
_LINE_OF_PIPES = 120
_NARROWEST = 40
_UNSHOWABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Commands(click.Group):
    """A group whose commands end in one sentence where they fail, and quietly where nobody reads on."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401  # what click says it is
    ) -> click.Context:
        """Read what was given; help and the version are written here."""
        with _in_one_sentence():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        with _in_one_sentence():
            result: object = super().invoke(ctx)
            sys.stdout.flush()
            return result


@contextmanager
def _in_one_sentence() -> Generator[None]:
    try:
        yield
    except BrokenPipeError:
        _let_go_of_stdout()
        raise Exit(0) from None
    except (TreeringError, OSError) as error:
        with suppress(BrokenPipeError):
            click.echo(f"treering: {sentence(error)}", err=True)
        raise Exit(1) from error
    except KeyboardInterrupt:
        raise Exit(INTERRUPTED) from None


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
    """Say in one sentence what went wrong, and where; what programs are advised to do becomes what people can do."""
    if isinstance(error, TreeringError):
        told = str(error)
        for kind, advice, option in _AS_OPTIONS:
            if isinstance(error, kind):
                told = told.replace(advice, option)
        if isinstance(error, NotASession) and error.where is not None:
            from .foreign_files import advice_on

            known = advice_on(error.where.path)
            told += f"; {known}" if known else ""
        return line(told)
    if isinstance(error, FileNotFoundError) and error.filename is None:  # only the working directory has no name
        return "the directory that this runs in is gone: change to one that is there"
    what = error.strerror or str(error) or type(error).__name__
    return line(f"{os.fsdecode(error.filename)}: {what}" if isinstance(error.filename, str | bytes) else what)


def refuse_to_choose(rows: Sequence[str], named: str) -> NoReturn:
    """End a command that would let a person choose a session, where there is no terminal to choose on.

    Args:
        rows: The sessions, a line each, which go to stdout.
        named: How one is named on this command's line.

    Raises:
        Exit: Always, with the status 2.
    """
    echo_lines(rows)
    told = f"give one of these, as {named}" if rows else "there are no sessions here yet; treering chat begins one"
    click.echo(f"treering: {told if not rows else f'there is no terminal to choose on: {told}'}", err=True)
    raise Exit(2)


def prepare() -> None:
    """Make stdout and stderr take any character, stdin give any byte, and colors be as the environment asks.

    A stream that was closed before the program began leads nowhere from now on: its number must not become that of a file
    which is opened later, since what is meant for the stream would be written there.
    """
    _open_closed_streams()
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace"), (sys.stderr, "backslashreplace")):
        with suppress(AttributeError):
            stream.reconfigure(errors=errors)  # type: ignore[union-attr]  # what lacks it is the suppressed case
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


def confirmed(question: str) -> bool:
    """Ask something on stderr that is answered by yes or no; the end of the input is no.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    try:
        return click.confirm(question, err=True)
    except click.Abort as abort:
        click.echo(err=True)
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise abort.__context__ from None
        return False


def _open_closed_streams() -> None:
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            fd = os.open(os.devnull, os.O_RDWR)
            if fd != number:
                os.dup2(fd, number)
                os.close(fd)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _let_go_of_stdout() -> None:
    """Have the interpreter's last flush go nowhere, since nobody reads it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
