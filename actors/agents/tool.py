"""Tools: what a model may call, made of a function and its type hints, or of a JSON schema and a handler.

    @tool
    async def read_file(path: str, lines: int = 100) -> str:
        '''Read the beginning of a text file.'''
        return await anyio.Path(path).read_text()

A function that is not async runs in a thread, so that its blocking work holds up nobody else.

A tool may raise whatever it likes: the model is told, and the turn goes on. One that needs something from outside before
it can answer raises `Suspend`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast, get_type_hints

import msgspec
from anyio import CapacityLimiter, to_thread
from msgspec import Struct
from msgspec.structs import force_setattr

from ...events.characters import whole
from ...events.content import JSON, ImagePart, TextPart, raw_json
from ...events.entries import Count
from ...events.errors import InvalidEntry, InvalidInput
from .model import ToolSpec

Handler: TypeAlias = Callable[[dict[str, JSON]], Awaitable[object]]
"""Carries a call out: takes its arguments, and returns what `ToolOutput.of` takes."""

_BYTES = (bytes, bytearray, memoryview)
"""What is to be refused, and would be told as base64 otherwise."""


class Suspend(Exception):
    """A tool raises it to leave its call open: the turn ends, and goes on with `AgentSession.resume`.

    Args:
        reason: What the call waits for, for people.
        data: Anything that whoever answers needs to know, as JSON.

    Raises:
        InvalidInput: The reason is no text, or the data no JSON.
    """

    def __init__(self, reason: str = "", data: object = None) -> None:
        if not isinstance(reason, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"the reason to wait is of type `{type(reason).__name__}`: give a text")
        self.reason = whole(reason)
        self.raw_data = None if data is None else raw_json(whole(data))
        super().__init__(self.reason)


class _Checked(Struct):
    """What a `ToolOutput` holds, in the types that a log takes."""

    content: str | tuple[TextPart | ImagePart, ...]
    is_error: bool
    error: str | None
    exit_code: int | None
    tokens: Count | None


class ToolOutput(Struct, frozen=True):
    """What a tool answers, for handlers that have more to say than a text.

    Half of a surrogate pair, as names of files that are no UTF-8 have it, becomes U+FFFD.

    Attributes:
        content: What the model is told.
        is_error: Whether the tool failed.
        error: What went wrong, for the record of the run.
        exit_code: A command's exit code.
        tokens: The size of the content, in tokens, where it is known.

    Raises:
        InvalidEntry: A field has the wrong type, or the size is below 0.
    """

    content: str | tuple[TextPart | ImagePart, ...]
    is_error: bool = False
    error: str | None = None
    exit_code: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        try:
            checked = msgspec.convert(msgspec.to_builtins(self, builtin_types=_BYTES), _Checked)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidEntry(f"a tool's output is none: {error}") from error
        force_setattr(self, "content", whole(checked.content))
        force_setattr(self, "error", whole(checked.error))

    @classmethod
    def of(cls, value: object) -> ToolOutput:
        """Make one of what a handler returned: a string, text and image parts, or any JSON value, which is told as such.

        Raises:
            InvalidEntry: It is none of these.
        """
        kind = type(value).__name__
        if isinstance(value, ToolOutput):
            return value
        if value is None:
            return cls("")
        if isinstance(value, str):
            return cls(value)
        if isinstance(value, (TextPart, ImagePart)):
            return cls((value,))
        if isinstance(value, (list, tuple)) and value:
            parts = tuple(cast("Sequence[object]", value))
            if all(isinstance(part, (TextPart, ImagePart)) for part in parts):
                return cls(cast("tuple[TextPart | ImagePart, ...]", parts))  # as the line above has found
        try:
            plain = cast("object", msgspec.to_builtins(value, builtin_types=_BYTES))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidEntry(f"a tool's output of type `{kind}` is no JSON: {error}") from error
        if isinstance(plain, _BYTES):
            raise InvalidEntry(f"a tool's output is of type `{kind}`: decode it first")
        return cls(bytes(raw_json(whole(plain))).decode())

    @classmethod
    def failed(cls, told: str, error: str | None = None) -> ToolOutput:
        """Make one that says that the tool failed."""
        return cls(told, is_error=True, error=error or told)


class Tool:
    """A tool: what a model is told of it, and what carries its calls out.

    Args:
        name: What the model calls it.
        description: What it does, and when to use it.
        parameters: The JSON schema of its arguments, an object.
        handler: Carries a call out.
    """

    __slots__ = ("_handler", "spec")

    def __init__(self, name: str, description: str, parameters: Mapping[str, object], handler: Handler) -> None:
        if not name:
            raise InvalidInput("a tool needs a name")
        if not callable(handler):
            raise InvalidInput(f"the handler of tool {name!r} cannot be called: give an async function")
        self.spec = ToolSpec.of(name, description, parameters)
        self._handler = handler

    @classmethod
    def of(cls, function: Callable[..., object], *, name: str | None = None, description: str | None = None) -> Tool:
        """Make a tool of a function: its parameters and their type hints are the schema.

        One that is not async runs in a worker thread. When its turn is cancelled, or it takes too long, it is waited for
        no longer and runs on to its end, since no thread can be stopped; what it returns is then lost.

        Args:
            function: What carries a call out. Every parameter has a type hint; `Annotated[str, Meta(description="...")]`
                tells the model more of it.
            name: What the model calls it; the function's own name where none is given.
            description: What it does; what the docstring says, where none is given.

        Raises:
            InvalidInput: It is no function, or a parameter has no type hint or one that JSON cannot say.
        """
        if not callable(function):  # pyright: ignore[reportUnnecessaryComparison]
            raise InvalidInput(f"`{type(function).__name__}` cannot be called: give a function")
        name = name or str(getattr(function, "__name__", ""))
        arguments = _arguments_of(function, name)
        called = _awaited(function)

        async def handler(given: dict[str, JSON]) -> object:
            try:
                taken = msgspec.convert(given, arguments, str_keys=True)
            except msgspec.ValidationError as error:
                raise InvalidInput(f"the arguments do not fit: {error}") from error
            return await called(**{field: getattr(taken, field) for field in arguments.__struct_fields__})

        return cls(name, description or inspect.getdoc(function) or "", _schema_of(arguments, name), handler)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    @property
    def name(self) -> str:
        """What the model calls it."""
        return self.spec.name

    @property
    def description(self) -> str:
        """What it does."""
        return self.spec.description

    async def __call__(self, arguments: dict[str, JSON]) -> ToolOutput:
        """Carry a call out; whatever the handler raises is its caller's to deal with."""
        made = cast("object", self._handler(arguments))  # whatever it is declared to be
        if not isinstance(made, Awaitable):
            raise InvalidInput(f"the handler of tool {self.name!r} is no async function")
        return ToolOutput.of(await cast("Awaitable[object]", made))


def tool(function: Callable[..., object]) -> Tool:
    """Make a tool of a function, async or not, as a decorator; see `Tool.of`."""
    return Tool.of(function)


def definitions(tools: Sequence[ToolSpec]) -> str:
    """Return the definitions of tools as JSON, to count them."""
    told = [{"name": each.name, "description": each.description, "parameters": each.raw_parameters} for each in tools]
    return msgspec.json.encode(told).decode() if told else ""


def _awaited(function: Callable[..., object]) -> Callable[..., Awaitable[object]]:
    """Return a function that can be awaited: one that is not async runs in a thread."""
    if inspect.iscoroutinefunction(function):
        return cast("Callable[..., Awaitable[object]]", function)

    async def in_thread(**arguments: object) -> object:
        # What only wraps an async function is not async itself; what it returns is for the event loop, and hidden until
        # it is there, since trio takes no coroutine from a thread.
        # A limiter of its own: the calls of an agent are bounded already, and those that hang must keep no thread from
        # other tools, nor from the program, nor may the wait for one count as the tool's time.
        (made,) = await to_thread.run_sync(
            lambda: (function(**arguments),), abandon_on_cancel=True, limiter=CapacityLimiter(1)
        )
        return await cast("Awaitable[object]", made) if isinstance(made, Awaitable) else made

    return in_thread


def _arguments_of(function: Callable[..., object], name: str) -> type[Struct]:
    """Return a struct whose fields are a function's parameters."""
    try:
        hints = get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters.values()
    except (NameError, TypeError, ValueError) as error:
        raise InvalidInput(f"the parameters of tool {name!r} cannot be described: {error}") from error
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []  # a hint, or a default, may be anything
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidInput(
                f"parameter {parameter.name!r} of tool {name!r} cannot be given by name: a model does so"
            )
        if parameter.name not in hints:
            raise InvalidInput(f"parameter {parameter.name!r} of tool {name!r} has no type hint: the schema needs one")
        hint = hints[parameter.name]
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:
            fields.append((parameter.name, hint, parameter.default))
    try:
        return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)
    except TypeError as error:
        raise InvalidInput(f"the parameters of tool {name!r} cannot be described: {error}") from error


def _schema_of(arguments: type[Struct], name: str) -> dict[str, object]:
    """Return the schema of an object, with its own definition at the top, where providers look for it."""
    try:
        _, found = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise InvalidInput(f"the parameters of tool {name!r} cannot be described: {error}") from error
    own = {key: value for key, value in found.pop(arguments.__name__).items() if key != "title"}
    return {**own, "$defs": found} if found else own
