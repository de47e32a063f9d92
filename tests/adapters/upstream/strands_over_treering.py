"""A plugin for the tests of Strands Agents: they get treering's repository where they ask for one in memory."""

from __future__ import annotations

import tempfile

from tests.fixtures import mock_session_repository  # type: ignore[import-not-found]  # theirs

from treering.adapters.strands import TreeringSessionRepository


class MockedSessionRepository(TreeringSessionRepository):
    """A repository that is made as theirs is: without a place."""

    def __init__(self) -> None:
        super().__init__(tempfile.mkdtemp(prefix="treering-"))


mock_session_repository.MockedSessionRepository = MockedSessionRepository
