"""Find the part of a traceback that lies in a tool: the way to it, through the agent and its threads, explains nothing.

calling.py, tool.py                         the agent calls the tool
anyio's `run_sync` and frames of the loop   only for a tool that runs in a thread
tool.py                                     likewise
the tool                                    everything from here on
"""

from __future__ import annotations

from types import TracebackType

from anyio import to_thread

_CALLERS = frozenset({f"{__package__}.calling", f"{__package__}.tool"})
"""The modules through which an agent calls a tool."""


def trace_in_tool(error: BaseException) -> TracebackType | None:
    """Return the traceback of an error that a call raised, from the tool's first frame on.

    If the tool has no frame in it, as when its return value was refused, this is the innermost frame.
    """
    trace = error.__traceback__
    enters_thread = False
    while trace is not None and trace.tb_next is not None:
        if trace.tb_frame.f_globals.get("__name__") in _CALLERS:
            enters_thread = False
        elif trace.tb_frame.f_code is to_thread.run_sync.__code__:
            enters_thread = True
        elif not enters_thread:
            break
        trace = trace.tb_next
    return trace
