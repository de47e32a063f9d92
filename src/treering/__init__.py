"""The session layer for hosts that run many LLM agents at once.

A session is an append-only tree of entries in one JSONL file; one actor owns the file and is the only one that writes
it; views are folded from the entries and streamed to subscribers::

    import treering

    async with treering.SessionHost("~/sessions") as host:
        session = await host.create(cwd="/work/project")
        await session.append_message("user", "Hello")
        context = await session.context()

Here are the names that most programs need. Chapters have all names, each those of its subject: `treering.sessions`,
`.sync`, `.entries`, `.stores`, `.subscriptions`, `.projections`, `.contexts`, `.agents`, `.models` and `.errors`.
`treering.formats` reads other programs' files, and `treering.testing` has tools for tests.

General layout: `events` defines what is written (entries, dialects, logs, stores), `projections` what is read (context,
tree, labels, subscriptions), `actors` who acts (commands, session actors, the host). Imports point from actors to
projections to events; nothing inside imports this package or a chapter.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .actors.agents.agent import AgentSession
    from .actors.agents.options import AgentOptions, ConversationSession
    from .actors.agents.tool import Tool, tool
    from .actors.catalog.settings import Settings, default_root
    from .actors.host.host import SessionHost
    from .actors.host.keyed import KeyedSessions
    from .actors.host.runtime import Limits
    from .actors.session.session import Session
    from .actors.sync import SyncHost, SyncSession
    from .events.content import image, plain_text, text, thinking, tool_result, tool_use
    from .events.entries import Entry, Header, Message, MessageEntry, Usage, message
    from .events.errors import (
        AppendFailed,
        AppendInDoubt,
        CommandConflict,
        Conflict,
        ContextOverflow,
        EntryNotFound,
        ExtraMissing,
        HostClosed,
        InvalidInput,
        LogReplaced,
        NotASession,
        NotFound,
        ReadOnly,
        SessionClosed,
        SessionLocked,
        SessionNotFound,
        TreeringError,
        UnsupportedVersion,
    )
    from .events.stores.base import Cursor
    from .events.stores.files import Durability, FileStore
    from .events.stores.memory import MemoryStore
    from .projections.base import Projection
    from .projections.building.budget import ContextBudget
    from .projections.building.builder import ContextBuilder
    from .projections.building.strategy import ContextStrategy
    from .projections.context import Context
    from .projections.feed_events import Reset
    from .projections.summary import SessionSummary
    from .projections.views import Changed, Snapshot

__version__ = "0.1.0"

_CHAPTERS = (
    "errors",
    "entries",
    "stores",
    "contexts",
    "subscriptions",
    "projections",
    "sessions",
    "agents",
    "sync",
    "models",
)
"""Those that load least come first: a name loads them up to its own."""

if not TYPE_CHECKING:  # to a type checker, a name that is not here does not exist

    def __getattr__(name: str) -> object:
        """Return a name from its chapter; refuse one that is not here, and say which chapter has it."""
        from importlib import import_module

        if name.startswith("_") or name in _CHAPTERS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        for chapter in _CHAPTERS:
            module = import_module(f".{chapter}", __name__)
            if name in module.__all__:
                if name not in __all__:
                    where = f"from treering.{chapter} import {name}"
                    raise ImportError(f"treering.{name} is in a chapter: {where}", name=name)
                return globals().setdefault(name, getattr(module, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return [*globals(), *__all__]


__all__ = [
    "AgentOptions",
    "AgentSession",
    "AppendFailed",
    "AppendInDoubt",
    "Changed",
    "CommandConflict",
    "Conflict",
    "Context",
    "ContextBudget",
    "ContextBuilder",
    "ContextOverflow",
    "ContextStrategy",
    "ConversationSession",
    "Cursor",
    "Durability",
    "Entry",
    "EntryNotFound",
    "ExtraMissing",
    "FileStore",
    "Header",
    "HostClosed",
    "InvalidInput",
    "KeyedSessions",
    "Limits",
    "LogReplaced",
    "MemoryStore",
    "Message",
    "MessageEntry",
    "NotASession",
    "NotFound",
    "Projection",
    "ReadOnly",
    "Reset",
    "Session",
    "SessionClosed",
    "SessionHost",
    "SessionLocked",
    "SessionNotFound",
    "SessionSummary",
    "Settings",
    "Snapshot",
    "SyncHost",
    "SyncSession",
    "Tool",
    "TreeringError",
    "UnsupportedVersion",
    "Usage",
    "__version__",
    "default_root",
    "image",
    "message",
    "plain_text",
    "text",
    "thinking",
    "tool",
    "tool_result",
    "tool_use",
]
