"""Signals for a program without an event loop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from ...events.errors import WrongThread


@contextmanager
def exit_on_signals(*numbers: signal.Signals) -> Generator[None]:
    """Raise `SystemExit` in the main thread on the first of the signals, so that its `with` blocks are left in order.

    Args:
        *numbers: The signals.

    Raises:
        WrongThread: This is not the main thread, the only one that receives signals.
    """
    if threading.current_thread() is not threading.main_thread():
        raise WrongThread("signals reach only the main thread: open the host there, or without `signals`")

    def leave(number: int, _: FrameType | None) -> NoReturn:
        restore()
        raise SystemExit(128 + number)

    def restore() -> None:
        for each, handler in before.items():
            if signal.getsignal(each) is leave:
                signal.signal(each, handler)

    before = {each: signal.getsignal(each) or signal.SIG_DFL for each in numbers}
    for each in numbers:
        signal.signal(each, leave)
    try:
        yield
    finally:
        restore()
