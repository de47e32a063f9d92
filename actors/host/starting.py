"""Opening a host without a block, and what is said of one that nobody closed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine
from inspect import signature
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from ...events.errors import InvalidInput

P = ParamSpec("P")


class Beginning(Protocol):
    """A host that is not open yet."""

    async def _begin(self) -> None:
        """Open it, in the present event loop."""
        ...


H = TypeVar("H", bound=Beginning)


class Starting(Generic[P]):
    """The call `SessionHost.start`, which takes the arguments of the host.

    Args:
        init: The host's `__init__`, for its signature.
    """

    def __init__(self, init: Callable[Concatenate[Any, P], None]) -> None:
        self.__wrapped__ = init

    def __get__(self, instance: object, owner: type[H]) -> Callable[P, Coroutine[Any, Any, H]]:
        construct = cast("Callable[..., H]", owner)  # checkers cannot see that it has the signature of its `__init__`

        async def start(*args: P.args, **kwargs: P.kwargs) -> H:
            if kwargs.get("signals"):
                raise InvalidInput("`signals` end a block: open the host with `async with`, or handle signals yourself")
            host = construct(*args, **kwargs)
            await host._begin()  # pyright: ignore[reportPrivateUsage]  # a method would be public
            return host

        start.__signature__ = signature(owner).replace(return_annotation=owner)  # type: ignore[attr-defined]  # for `help`
        start.__doc__ = DOC
        return start


DOC = """Open a host without a block: `host = await SessionHost.start("~/sessions")`.

It takes the arguments of `SessionHost`, and any task of the event loop may close it, with `aclose`.

Raises:
    InvalidInput: An argument has an unknown value or the wrong type, the root is not a directory, or `signals` are
        given, which end a block.
"""


class Unclosed:
    """The warning that a host was not closed.

    It is given when this object is deleted, at once: there, a program that turns warnings into errors gets an
    unraisable one, as for a file that was not closed, and the event loop that ends goes on to end.
    """

    def __init__(self, host: str) -> None:
        self._host = host

    def __del__(self) -> None:
        warnings.warn(
            f"unclosed {self._host}: call `await host.aclose()`, or open it with `async with`",
            ResourceWarning,
            stacklevel=2,
        )
