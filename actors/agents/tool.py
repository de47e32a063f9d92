"""Tools that a model may call, made from a function and its type hints, or from a JSON schema and a handler.

    @tool
    async def read_file(path: str, lines: int = 100) -> str:
        '''Read the beginning of a text file.'''
        return await anyio.Path(path).read_text()

A function that is not async runs in a thread, so that it does not block the event loop.

A tool may raise any exception: the model gets it as the result, and the turn continues. A tool that needs something
from outside before it can answer raises `Suspend`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Protocol, TypeAlias, cast, get_type_hints

import msgspec
from anyio import CapacityLimiter, to_thread
from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from ...events.content import ImagePart, TextPart
from ...events.entries import Count
from ...events.errors import InvalidEntry, InvalidInput
from ...events.json_values import JSON, raw_json
from ...events.texts import whole
from .model import ToolSpec

Handler: TypeAlias = Callable[[dict[str, JSON]], Awaitable[object]]
"""Executes a call: takes its arguments, and returns anything that `ToolOutput.of` accepts."""

_BYTES = (bytes, bytearray, memoryview)
"""Types to refuse in a tool's output; msgspec would encode them as base64."""


class Suspend(Exception):
    """Raised by a tool to leave its call open: the turn ends, and `AgentSession.resume` resumes it.

    Args:
        reason: What the call waits for, in words for people.
        data: Anything that is needed to produce the result, as JSON.

    Raises:
        InvalidInput: The reason is not a string, or the data is not JSON.
    """

    def __init__(self, reason: str = "", data: object = None) -> None:
        if not isinstance(reason, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"`reason` must be a string, not `{type(reason).__name__}`")
        self.reason = whole(reason)
        self.raw_data = None if data is None else raw_json(whole(data))
        super().__init__(self.reason)


class _Checked(Struct):
    """The fields of a `ToolOutput`, in the types that a log can store."""

    content: str | tuple[TextPart | ImagePart, ...]
    is_error: bool
    error: str | None
    exit_code: int | None
    tokens: Count | None
    duration_ms: Annotated[float, Meta(ge=0, le=1e15)] | None


class ToolOutput(Struct, frozen=True):
    """The result of a tool, for handlers that return more than a text.

    A lone surrogate, as found in file names that are not UTF-8, becomes U+FFFD.

    Attributes:
        content: The content that the model gets.
        is_error: Whether the tool failed.
        error: What went wrong, for the record of the execution.
        exit_code: The exit code of a command.
        tokens: The size of the content in tokens, if known.
        duration_ms: How long the tool ran, in milliseconds, where it knows better than the clock of the caller, such as
            one that ran elsewhere; None has the call measured.

    Raises:
        InvalidEntry: A field has the wrong type, or the size or the duration is below 0.
    """

    content: str | tuple[TextPart | ImagePart, ...]
    is_error: bool = False
    error: str | None = None
    exit_code: int | None = None
    tokens: int | None = None
    duration_ms: float | None = None

    def __post_init__(self) -> None:
        try:
            checked = msgspec.convert(msgspec.to_builtins(self, builtin_types=_BYTES), _Checked)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidEntry(f"invalid tool output: {error}") from error
        force_setattr(self, "content", whole(checked.content))
        force_setattr(self, "error", whole(checked.error))

    @classmethod
    def of(cls, value: object) -> ToolOutput:
        """Make an output from a handler's return value: a string, text and image parts, or a JSON value.

        Raises:
            InvalidEntry: The value is none of these.
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
                return cls(cast("tuple[TextPart | ImagePart, ...]", parts))  # checked in the line above
        try:
            plain = cast("object", msgspec.to_builtins(value, builtin_types=_BYTES))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidEntry(f"tool output of type `{kind}` cannot be encoded as JSON: {error}") from error
        if isinstance(plain, _BYTES):
            raise InvalidEntry(f"tool output is of type `{kind}`: decode it first")
        return cls(bytes(raw_json(whole(plain))).decode())

    @classmethod
    def failed(cls, content: str, error: str | None = None) -> ToolOutput:
        """Make an output that reports a failure of the tool."""
        return cls(content, is_error=True, error=error or content)


class Tool:
    """A tool: its description for the model, and the handler that executes its calls.

    Args:
        name: The name by which the model calls it.
        description: What it does, and when to use it.
        parameters: The JSON schema of its arguments, an object.
        handler: Executes a call.
    """

    __slots__ = ("_handler", "spec")

    def __init__(self, name: str, description: str, *, parameters: Mapping[str, object], handler: Handler) -> None:
        if not name:
            raise InvalidInput("a tool needs a name")
        if not callable(handler):
            raise InvalidInput(f"the handler of tool {name!r} is not callable: pass an async function")
        self.spec = ToolSpec.of(name, description, parameters=parameters)
        self._handler = handler

    @classmethod
    def of(cls, function: Callable[..., object], *, name: str | None = None, description: str | None = None) -> Tool:
        """Make a tool from a function, whose parameters and type hints become the schema.

        A function that is not async runs in a worker thread. When its turn is cancelled or its timeout passes, the
        thread is abandoned and runs to its end, since threads cannot be stopped; its return value is lost.

        Args:
            function: Executes a call: a function, a bound method, a `functools.partial`, whose arguments the model
                neither sees nor sets, or an object with `__call__`. Every other parameter needs a type hint (`object`
                and `Any` take any JSON value); `Annotated[str, Meta(description="...")]` describes it to the model.
            name: The name by which the model calls it; the function's own name by default. Objects have none.
            description: What it does; the docstring by default.

        Raises:
            InvalidInput: It is not callable, it has no name, or a parameter has no type hint or one that JSON cannot
                express.
        """
        if not callable(function):  # pyright: ignore[reportUnnecessaryComparison]
            raise InvalidInput(f"`{type(function).__name__}` is not callable: pass a function")
        described = _described(function)
        name = name or ("" if described.__name__ == "__call__" else described.__name__)
        if not name:
            kind = type(function).__name__
            raise InvalidInput(f"an object of type `{kind}` has no name for a model: use `Tool.of(object, name=...)`")
        arguments_type = _arguments_type(function, name)
        async_function = _as_async(function)

        async def handler(raw_arguments: dict[str, JSON]) -> object:
            try:
                arguments = msgspec.convert(raw_arguments, arguments_type, str_keys=True)
            except msgspec.ValidationError as error:
                raise InvalidInput(f"invalid arguments: {error}") from error
            return await async_function(
                **{field: getattr(arguments, field) for field in arguments_type.__struct_fields__}
            )

        schema = _schema_of(arguments_type, name)
        return cls(name, description or inspect.getdoc(described) or "", parameters=schema, handler=handler)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        return self.spec.name

    @property
    def description(self) -> str:
        """What it does."""
        return self.spec.description

    async def __call__(self, arguments: dict[str, JSON]) -> ToolOutput:
        """Execute a call; exceptions of the handler propagate to the caller."""
        result = cast("object", self._handler(arguments))  # the declared type is not checked at run time
        if not isinstance(result, Awaitable):
            raise InvalidInput(f"the handler of tool {self.name!r} is not an async function")
        return ToolOutput.of(await cast("Awaitable[object]", result))


def tool(function: Callable[..., object]) -> Tool:
    """Decorate a function, async or not, to make it a tool; see `Tool.of`."""
    return Tool.of(function)


def definitions(tools: Sequence[ToolSpec]) -> str:
    """Return the tool definitions as JSON, for counting their tokens."""
    fields = [{"name": each.name, "description": each.description, "parameters": each.raw_parameters} for each in tools]
    return msgspec.json.encode(fields).decode() if fields else ""


class _Object(Protocol):
    def __call__(self, **arguments: object) -> object: ...


def _described(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function that has the name, the docstring and the type hints of a callable."""
    if isinstance(function, partial):
        return _described(cast("partial[object]", function).func)
    return function if hasattr(function, "__name__") else cast("_Object", function).__call__


def _as_async(function: Callable[..., object]) -> Callable[..., Awaitable[object]]:
    """Return the function as an async one, which runs in a thread if the original is not async."""
    if inspect.iscoroutinefunction(_described(function)):
        return cast("Callable[..., Awaitable[object]]", function)

    async def in_thread(**arguments: object) -> object:
        # A plain function that wraps an async one returns a coroutine, which the event loop must await. The tuple hides
        # it on the way, since trio refuses to return a coroutine from a thread.
        # Each call has its own limiter: the calls of an agent are bounded already, a hanging tool must not take a
        # thread from other tools or from the program, and waiting for a thread must not count as the tool's time.
        (result,) = await to_thread.run_sync(
            lambda: (function(**arguments),), abandon_on_cancel=True, limiter=CapacityLimiter(1)
        )
        return await cast("Awaitable[object]", result) if isinstance(result, Awaitable) else result

    return in_thread


def _arguments_type(function: Callable[..., object], name: str) -> type[Struct]:
    """Return a struct type whose fields are the function's parameters."""
    try:
        hints = get_type_hints(_described(function), include_extras=True)
        parameters = inspect.signature(function).parameters.values()
    except (NameError, TypeError, ValueError) as error:
        raise InvalidInput(f"the parameters of tool {name!r} cannot be described: {error}") from error
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []  # hints and defaults may be anything
    bound = cast("partial[object]", function).keywords if isinstance(function, partial) else {}
    for parameter in parameters:
        if parameter.name in bound:
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidInput(
                f"parameter {parameter.name!r} of tool {name!r} cannot be passed by name, as models pass arguments"
            )
        if parameter.name not in hints and parameter.name in ("self", "cls"):
            raise InvalidInput(f"{name!r} is a method: make a tool of a bound one, as in `tool(object.{name})`")
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
    """Return the JSON schema of the arguments, with its own definition at the top level, where providers expect it."""

    def of_other(kind: type) -> dict[str, object]:
        if kind is object:
            return {"description": "any JSON value"}
        raise InvalidInput(
            f"a parameter of tool {name!r} has the type `{kind.__qualname__}`, which JSON cannot express: "
            "use types such as str, int, list[str], a dataclass or a msgspec.Struct, or Any for any JSON value"
        )

    try:
        _, schemas = msgspec.json.schema_components([arguments], schema_hook=of_other, ref_template="#/$defs/{name}")
    except TypeError as error:
        raise InvalidInput(f"the parameters of tool {name!r} cannot be described: {error}") from error
    own = {key: value for key, value in schemas.pop(arguments.__name__).items() if key != "title"}
    return {**own, "$defs": schemas} if schemas else own
