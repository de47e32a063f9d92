"""Opening a host without a block, and what is said of one that nobody closed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ..events.errors import InvalidInput

if TYPE_CHECKING:
    from .host import SessionHost

P = ParamSpec("P")
H = TypeVar("H", bound="SessionHost")


class Starting:
    """The call `SessionHost.start`, which has the signature of the class that it is asked of."""

    def __get__(self, instance: object, owner: Callable[P, H]) -> Callable[P, Coroutine[Any, Any, H]]:
        async def start(*args: P.args, **kwargs: P.kwargs) -> H:
            if kwargs.get("signals"):
                raise InvalidInput("`signals` end a block: open the host with `async with`, or handle signals yourself")
            host = owner(*args, **kwargs)
            await host._begin()  # pyright: ignore[reportPrivateUsage]  # a method would be public
            return host

        return start


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
