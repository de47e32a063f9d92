"""The functions of the library that an append of one message passes: what each of them does, and how long it takes.

The message has 1 KB and goes under `os` to a log in files, on asyncio. While the functions are watched, work for
threads is done on the spot. What is watched takes longer than what is not: `bench.path` subtracts it.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from cProfile import Profile
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Literal, TypeAlias, TypeVar, TypeVarTuple, get_args

from msgspec import Struct

import treering
from treering.stores import FileStore

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Way: TypeAlias = Literal["warm", "first", "reopening"]
"""What is appended to: a session that is in use, one that has no file yet, one that was passivated."""

WAYS: tuple[Way, ...] = get_args(Way)
LIBRARY = f"{Path(treering.__file__).parent}/"
_TEXT = "All work and no play makes a long log. " * 25  # a message of 1 KB
_EARLIER = 20  # messages that a session holds before it counts as one in use
_FOLDED = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}  # a newer Python makes no function of most of them
_NO_SYSTEM_CALLS = {"fspath", "strerror", "major", "minor", "makedev"}
_BLOCK = 20  # appends whose times are taken together
_SYSTEM_CALL = re.compile(r"<built-in (?:function|method) (?:(?:posix|nt|fcntl)\.(\w+)|_?io\.open)>")  # to a profile
_RESUMED = 0b11  # the bits of a RESUME instruction's argument that are 0 when a function begins


class Step(Struct):
    """One function on the way of an append.

    Attributes:
        name: Its name, with its class.
        file: Its file, relative to the library.
        line: The line where it begins, with its decorators.
        times: How often it runs in one append.
        calls: How many calls into functions of the library it makes.
        system_calls: How many calls it makes to functions of `os` and `fcntl`, and to `open`.
        own_us: Microseconds of processor time that it takes itself, without the functions of the library that it calls.
    """

    name: str
    file: str
    line: int
    times: int
    calls: int
    system_calls: int
    own_us: float


Append: TypeAlias = Callable[[], Awaitable[object]]
"""Appends one message."""


class Tally(Struct):
    """What one function did in one append."""

    times: int = 0
    calls: int = 0
    system_calls: int = 0


Tallies: TypeAlias = dict[CodeType, Tally]
"""What each function did in one append, in the order of their first calls."""


class _Counter:
    """A profile function that counts what the library's functions do in one append."""

    def __init__(self) -> None:
        self.tallies: Tallies = {}
        self._inside: list[CodeType] = []

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code, inside = frame.f_code, self._inside
        if event == "call" and _is_ours(code):
            tally = self.tallies.setdefault(code, Tally())
            if not code.co_code[frame.f_lasti + 1] & _RESUMED:  # not one that goes on after an await
                tally.times += 1
                if inside:
                    self.tallies[inside[-1]].calls += 1
            inside.append(code)
        elif event == "return" and inside and inside[-1] is code:
            inside.pop()
        elif event == "c_call" and inside and _is_system_call(argument):
            self.tallies[inside[-1]].system_calls += 1


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(LIBRARY) and code.co_name not in _FOLDED


def _is_system_call(function: object) -> bool:
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", "")
    if module in ("posix", "nt"):
        return not name.startswith("_") and name not in _NO_SYSTEM_CALLS
    return module == "fcntl" or (module in ("io", "_io") and name == "open")


def step_of(code: CodeType, tally: Tally, own_us: float = 0.0, call_us: float = 0.0) -> Step:
    """Make the step of a function.

    Args:
        code: The function.
        tally: What it does.
        own_us: The microseconds that were measured.
        call_us: How many of them watching adds, for each call of the function and each call that it makes.
    """
    file, own_us = code.co_filename.removeprefix(LIBRARY), max(0.0, own_us - call_us * (tally.times + tally.calls))
    return Step(code.co_qualname, file, code.co_firstlineno, tally.times, tally.calls, tally.system_calls, own_us)


def count(way: Way, rounds: int = 15) -> Tallies:
    """Return what the functions do in most appends of a way.

    Args:
        way: What is appended to.
        rounds: How many appends are watched.
    """
    counted: list[Tallies] = []

    async def measure(append: Append) -> None:
        counter = _Counter()
        sys.setprofile(counter)
        await append()
        sys.setprofile(None)
        counted.append(counter.tallies)

    _append_often(way, rounds, measure)

    def median(code: CodeType, of: Callable[[Tally], int]) -> int:
        return statistics.median_low([of(each.get(code) or Tally()) for each in counted])

    tallies = {}
    for code in dict.fromkeys(code for each in counted for code in each):
        times = median(code, lambda each: each.times)
        calls, system_calls = median(code, lambda each: each.calls), median(code, lambda each: each.system_calls)
        if times:
            tallies[code] = Tally(times, calls, system_calls)
    return tallies


def time_steps(way: Way, rounds: int) -> dict[CodeType, float]:
    """Return the microseconds that each function takes itself, with what watching adds to them."""
    blocks: list[dict[CodeType, float]] = []
    done, profile = 0, Profile(builtins=False)

    async def measure(append: Append) -> None:
        nonlocal done, profile
        profile.enable()
        await append()
        profile.disable()
        done += 1
        if done % _BLOCK == 0:
            found = [(each.code, each.inlinetime) for each in profile.getstats()]
            blocks.append({code: s * 1e6 / _BLOCK for code, s in found if not isinstance(code, str) and _is_ours(code)})
            profile = Profile(builtins=False)

    _append_often(way, -(-rounds // _BLOCK) * _BLOCK, measure)
    codes = dict.fromkeys(code for block in blocks for code in block)
    return {code: statistics.median(block.get(code, 0.0) for block in blocks) for code in codes}


def time_system_calls(way: Way, rounds: int) -> float:
    """Return the microseconds that an append takes in functions of `os` and `fcntl`, and in `open`."""
    spent_us: list[float] = []

    async def measure(append: Append) -> None:
        profile = Profile()
        profile.enable()
        await append()
        profile.disable()
        builtins = [(each.code, each.inlinetime) for each in profile.getstats() if isinstance(each.code, str)]
        calls = [(call[1], s) for code, s in builtins if (call := _SYSTEM_CALL.match(code)) is not None]
        spent_us.append(sum(s * 1e6 for name, s in calls if name not in _NO_SYSTEM_CALLS))

    _append_often(way, rounds, measure)
    return statistics.median(spent_us)


def time_whole(way: Way, rounds: int) -> float:
    """Return the microseconds of processor time that an append takes unwatched, in all threads."""
    spent_ns: list[int] = []

    async def measure(append: Append) -> None:
        began = time.process_time_ns()
        await append()
        spent_ns.append(time.process_time_ns() - began)

    _append_often(way, rounds, measure, on_the_spot=False)
    return statistics.median(spent_ns) / 1e3


async def _on_the_spot(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """Do the work of a thread in this one, which is watched."""
    return fn(*args)


def _append_often(
    way: Way, rounds: int, measure: Callable[[Append], Awaitable[None]], *, on_the_spot: bool = True
) -> None:
    async def run() -> None:
        # With the usual limit, watched appends would let others go on more often than unwatched ones.
        limits = treering.Limits(inline_for_s=60)
        with tempfile.TemporaryDirectory(prefix="treering-bench-") as root:
            offload = _on_the_spot if on_the_spot else None
            # After a write that seems slow on a busy machine, the next ones would go another way, by threads.
            store = FileStore(root, offload=offload, slow_write_s=60)
            async with treering.SessionHost(store=store, limits=limits, offload=offload) as host:
                session = await _used_session(host)
                for _ in range(rounds):
                    if way == "first":
                        session = await host.create()
                    elif way == "reopening":
                        session = await _used_session(host)
                        await session.passivate()
                    await measure(partial(session.append_message, "user", _TEXT))

    asyncio.run(run())


async def _used_session(host: treering.SessionHost) -> treering.Session:
    session = await host.create()
    for _ in range(_EARLIER):
        await session.append_message("user", _TEXT)
    return session
