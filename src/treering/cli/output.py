"""Output of the command line: JSON and lines on stdout, errors as one sentence on stderr, clean exits.

Once the program is loaded, Ctrl-C ends a command with the status 130 at any time; while Python still imports it, none
of its code runs that could handle the signal.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import select
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple, cast

import anyio
import anyio.lowlevel
import click
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from ..events.texts import PREVIEW_CHARS_MAX, preview

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

INTERRUPTED = 130
"""The exit status of a program that Ctrl-C ended, by the convention of shells."""

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The signals that end the program cleanly."""

QUIET = "treering.quiet"
"""The key under which a command's context notes that counts and progress are suppressed."""

_LINES_AT_ONCE = 1000
_LOOKS_EVERY_S = 0.5
_STDOUT = 1
_LINE_OF_PIPES = 120
_NARROWEST = 40
_OBEYED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")
_UNSHOWABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def run(function: Callable[[*Ts], Awaitable[T]], *args: *Ts, use_uvloop: bool = False) -> T:
    """Run an async function; of an exception group, raise the first error alone."""
    try:
        return anyio.run(function, *args, backend_options={"use_uvloop": use_uvloop})
    except BaseExceptionGroup as group:
        raise _first_of(group) from group


@asynccontextmanager
async def ended_by_signals() -> AsyncGenerator[TaskGroup]:
    """Run tasks beside a block, and leave both on a signal, so that the block restores a screen before the end.

    Raises:
        SystemExit: A signal ended the program.
    """
    signalled: int | None = None

    async def obey(*, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        nonlocal signalled
        with anyio.open_signal_receiver(*ENDING) as signals:
            task_status.started()
            async for number in signals:
                signalled = int(number)
                tasks.cancel_scope.cancel()
                return

    async with anyio.create_task_group() as tasks:
        if sys.platform != "win32" and threading.current_thread() is threading.main_thread():  # signals reach it
            await tasks.start(obey)
        yield tasks
        tasks.cancel_scope.cancel()
    if signalled is not None:
        raise SystemExit(128 + signalled)


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    if isinstance(error, BaseExceptionGroup):
        return _first_of(cast("BaseExceptionGroup[BaseException]", error))
    return error


def prepare() -> None:
    """Make the standard streams accept any character and byte, and set colors as the environment asks.

    A stream that was closed at startup is redirected to the null device: otherwise a file opened later would get its
    number, and output for the stream would be written there.
    """
    atexit.register(gc.freeze)  # or else the interpreter visits all that was imported once more before it ends
    _open_closed_streams()
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace"), (sys.stderr, "backslashreplace")):
        with suppress(AttributeError):
            stream.reconfigure(errors=errors)  # type: ignore[union-attr]  # streams without it are skipped
    if colors_forced():
        click.get_current_context().color = True
    elif os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        click.get_current_context().color = False


def shows_colors() -> bool:
    """Return whether stdout shows styles; click removes them otherwise, at more cost than setting them."""
    context = click.get_current_context(silent=True)
    color = None if context is None else context.color
    return sys.stdout.isatty() if color is None else color


def colors_forced() -> bool:
    """Return whether the environment asks for colors also in pipes."""
    return bool(os.environ.get("FORCE_COLOR")) and not os.environ.get("NO_COLOR")


def echo_json(value: object) -> None:
    """Write one JSON value on a line."""
    click.echo(as_json(value))


def show(value: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Write a result: as JSON, or as lines for people."""
    if as_json:
        echo_json(value)
    else:
        echo_lines(lines)


async def echo_json_array(values: Iterable[object]) -> None:
    """Write a JSON array on a line, without holding all of its elements in memory; Ctrl-C ends it in between."""
    remaining, before = iter(values), b"["
    while block := list(islice(remaining, _LINES_AT_ONCE)):
        click.echo(before + as_json(block)[1:-1], nl=False)
        before = b","
        await anyio.lowlevel.checkpoint()
    click.echo(b"]" if before == b"," else b"[]")


def as_json(value: object) -> bytes:
    """Encode a value for stdout, even if it contains lone surrogates; at a terminal, see `_for_terminal`."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:
        import json

        data = json.dumps(msgspec.to_builtins(value)).encode()
    return _for_terminal(data)


def echo_document(data: bytes) -> None:
    """Write a whole document to stdout: its own bytes, except at a terminal; see `_for_terminal`."""
    click.echo(_for_terminal(data), nl=False)


def _for_terminal(data: bytes) -> bytes:
    """Return text with its control characters as JSON escapes if stdout is a terminal, which would obey them.

    These are the sequences that set titles, colors or the clipboard, move the cursor or erase what was shown, and the
    characters that change the order of others. JSON keeps its value.
    """
    if not sys.stdout.isatty():
        return data
    return _OBEYED.sub(lambda each: f"\\u{ord(each[0]):04x}", data.decode(errors="backslashreplace")).encode()


def quiet() -> bool:
    """Return whether counts and progress are suppressed."""
    return bool(click.get_current_context().meta.get(QUIET))


def tell(message: str) -> None:
    """Write a note to stderr, unless notes are suppressed."""
    if not quiet():
        click.echo(clean(message), err=True)


def echo_lines(lines: Iterable[str]) -> None:
    """Write lines, in large blocks."""
    remaining = iter(lines)
    while block := list(islice(remaining, _LINES_AT_ONCE)):
        click.echo("\n".join(block))


def echo_title(text: str) -> None:
    """Write the title of what follows."""
    click.echo(click.style(text, bold=True))


def echo_step(text: str) -> None:
    """Write what has just happened, below a title."""
    click.echo(f"   {text}")


def clean(text: str) -> str:
    """Replace control characters, and characters that cannot be encoded, by U+FFFD."""
    return text if text.isprintable() else _UNSHOWABLE.sub("\ufffd", text)


def line(text: str) -> str:
    """Clean a text and join it to one line."""
    return clean(" ".join(text.split()))


def short_line(text: str, chars_max: int = PREVIEW_CHARS_MAX) -> str:
    """Return the beginning of a text of a session, cleaned and on one line, however long the text is."""
    return clean(preview(text, chars_max))


def columns() -> int:
    """Return the maximum width of a line: the terminal's width, or a fixed one for pipes."""
    if not sys.stdout.isatty():
        return _LINE_OF_PIPES
    import shutil

    return max(_NARROWEST, shutil.get_terminal_size().columns)


def has_terminal() -> bool:
    """Return whether there is a terminal to choose on: one with key input and a movable cursor."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def can_write_unicode() -> bool:
    """Return whether stdout can encode any character."""
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def transient_progress() -> Progress:
    """Return a progress bar that disappears when it ends; it is shown if stderr is a terminal, unless suppressed."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        disable=quiet() or not sys.stderr.isatty(),
    )


def confirmed(question: str) -> bool:
    """Ask a yes-or-no question on stderr; the end of the input means no.

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


async def watch_reader() -> None:
    """Watch stdout if it is a pipe: a write reports a closed pipe, but the next entry may never come.

    Raises:
        BrokenPipeError: The reader has closed the pipe.
    """
    pipe = select.poll()
    pipe.register(_STDOUT, 0)  # poll reports a closed other end without being asked to
    closed = select.POLLERR | select.POLLHUP  # of a device, some systems say that they cannot tell
    while not any(event & closed for _, event in pipe.poll(0)):  # noqa: ASYNC110  # the kernel sets no anyio event
        await anyio.sleep(_LOOKS_EVERY_S)
    raise BrokenPipeError


def _open_closed_streams() -> None:
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            fd = os.open(os.devnull, os.O_RDWR)
            if fd != number:
                os.dup2(fd, number)
                os.close(fd)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def discard_stdout() -> None:
    """Redirect stdout to the null device, so that the interpreter's last flush does not fail."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
