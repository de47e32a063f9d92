"""A plugin for the tests of OpenAI's Agents SDK: they get treering's sessions where they ask for SQLite's.

A database that they name is a root of the same name; one in memory is a directory that nothing else uses.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import agents
import agents.extensions.memory
import agents.memory
from agents.memory import SessionSettings

from treering.adapters.openai_agents import TreeringAdvancedSession, TreeringSession


class SQLiteSession(TreeringSession):
    """A session that is made as SQLite's is."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        **_: str,
    ) -> None:
        super().__init__(session_id, _root(db_path), session_settings=session_settings)

    def close(self) -> None:
        """Do nothing: the host of a root is closed with the process."""


class AdvancedSQLiteSession(TreeringAdvancedSession):
    """A session with branches that is made as SQLite's is."""

    def __init__(
        self,
        *,
        session_id: str,
        db_path: str | Path = ":memory:",
        session_settings: SessionSettings | dict[str, Any] | None = None,
        **_: object,
    ) -> None:
        super().__init__(session_id, _root(db_path), session_settings=session_settings)

    @property
    def _current_branch_id(self) -> str:
        return self.current_branch_id

    def close(self) -> None:
        """Do nothing: the host of a root is closed with the process."""


def _root(db_path: str | Path) -> str:
    return tempfile.mkdtemp(prefix="treering-") if str(db_path) == ":memory:" else str(db_path)


vars(agents.extensions.memory)["AdvancedSQLiteSession"] = AdvancedSQLiteSession
for module in (agents, agents.memory):
    vars(module)["SQLiteSession"] = SQLiteSession
