"""The contracts of Strands Agents' own tests of repositories and their managers, at 1.62.0, written anew: one a test.

Those that look into files have no meaning here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("strands", reason="Strands Agents is not installed: `make interop` does it")

from strands import Agent
from strands.agent.conversation_manager import NullConversationManager, SummarizingConversationManager
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from treering.adapters.strands import TreeringSessionRepository

pytestmark = pytest.mark.feature("A-22")


class Several:
    """Several agents that work together, as a repository sees them."""

    id = "together"

    def __init__(self, **state: Any) -> None:  # noqa: ANN401  # whatever they keep
        self.state = state

    def serialize_state(self) -> dict[str, Any]:
        """Return what is kept of them."""
        return self.state

    def deserialize_state(self, payload: dict[str, Any]) -> None:
        """Take what was kept of them."""
        self.state = payload


@pytest.fixture
def repository(root: str) -> TreeringSessionRepository:
    """A repository with the session "s", which has the agent "a"."""
    made = TreeringSessionRepository(root)
    made.create_session(session())
    made.create_agent("s", agent())
    return made


def session(session_id: str = "s") -> Session:
    """Return a session of the framework."""
    return Session(session_id=session_id, session_type=SessionType.AGENT)


def agent(**state: Any) -> SessionAgent:  # noqa: ANN401
    """Return what is kept of an agent."""
    manager = NullConversationManager().get_state()
    return SessionAgent(agent_id="a", state=state or {"key": "value"}, conversation_manager_state=manager)


def message(number: int, words: str = "Hello", **more: Any) -> SessionMessage:  # noqa: ANN401
    """Return what is kept of a message."""
    said: Any = {"role": "user", "content": [{"text": words}], **more}
    return SessionMessage.from_message(said, number)


def texts(messages: list[SessionMessage]) -> list[str]:
    """Return what messages say."""
    return [each.to_message()["content"][0]["text"] for each in messages]


def test_a_session_is_created(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_create_session"""
    made = session("new")
    assert repository.create_session(made) is made
    with pytest.raises(SessionException, match="already exists"):
        repository.create_session(session("new"))


def test_a_session_is_read(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_read_session"""
    made = repository.create_session(session("new"))
    assert repository.read_session("new") == made


def test_a_session_that_is_not_there_is_none(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_read_nonexistent_session"""
    assert repository.read_session("another") is None


def test_a_session_is_deleted(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_delete_session"""
    repository.create_message("s", "a", message(0))
    repository.delete_session("s")
    assert repository.read_session("s") is None
    assert repository.read_agent("s", "a") is None
    repository.create_session(session())
    repository.create_agent("s", agent())
    assert repository.list_messages("s", "a") == []


def test_a_session_that_is_not_there_is_not_deleted(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_delete_nonexistent_session"""
    with pytest.raises(SessionException, match="does not exist"):
        repository.delete_session("another")


def test_an_agent_is_created_and_read(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_create_agent, ::test_read_agent"""
    made = SessionAgent("b", {"a": [1, None]}, {"__name__": "none"}, _internal_state={"model_state": {"b": [1.0]}})
    repository.create_agent("s", made)
    assert repository.read_agent("s", "b") == made
    with pytest.raises(SessionException, match="already exists"):
        repository.create_agent("s", made)
    with pytest.raises(SessionException, match="does not exist"):
        repository.create_agent("another", made)


def test_an_agent_that_is_not_there_is_none(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_read_nonexistent_agent"""
    assert repository.read_agent("s", "another") is None
    assert repository.read_agent("another", "a") is None


def test_an_agent_is_updated(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_update_agent"""
    before = repository.read_agent("s", "a")
    repository.update_agent("s", agent(updated="value"))
    after = repository.read_agent("s", "a")
    assert before is not None
    assert after is not None
    assert after.state == {"updated": "value"}
    assert after.created_at == before.created_at


def test_an_agent_that_is_not_there_is_not_updated(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_update_nonexistent_agent"""
    repository.create_session(session("new"))
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_agent("new", agent())


def test_a_message_is_created_and_read(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_create_message, ::test_read_message"""
    made = [message(number, f"word {number}") for number in range(2)]
    for each in made:
        repository.create_message("s", "a", each)
    assert [repository.read_message("s", "a", number) for number in range(2)] == made


def test_a_messages_durable_id_persists(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_message_durable_id_persists"""
    repository.create_message("s", "a", message(0, tracking_id="durable-1"))
    found = repository.read_message("s", "a", 0)
    assert found is not None
    assert found.to_message()["tracking_id"] == "durable-1"


def test_a_message_that_is_not_there_is_none(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_read_nonexistent_message, ::test_read_messages_with_new_agent"""
    assert repository.read_message("s", "a", 999) is None
    assert repository.read_message("s", "another", 999) is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, range(10)),
        ({"limit": 3}, range(3)),
        ({"offset": 5}, range(5, 10)),
        ({"limit": 2, "offset": 9}, range(9, 10)),
        ({"offset": 10}, range(0)),
    ],
)
def test_messages_are_listed_in_pages(
    repository: TreeringSessionRepository, options: dict[str, int], expected: range
) -> None:
    """test_file_session_manager.py::test_list_messages_all, ::test_list_messages_with_limit, ::..._with_offset"""
    for number in range(10):
        repository.create_message("s", "a", message(number, f"word {number}"))
    assert texts(repository.list_messages("s", "a", **options)) == [f"word {number}" for number in expected]


def test_a_new_agent_has_no_messages(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_list_messages_with_new_agent"""
    assert repository.list_messages("s", "a") == []
    with pytest.raises(SessionException, match="does not exist"):
        repository.list_messages("s", "another")


def test_a_message_is_updated(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_update_message"""
    for number in range(3):
        repository.create_message("s", "a", message(number))
    before = repository.read_message("s", "a", 1)
    changed = message(1, "Updated content")
    repository.update_message("s", "a", changed)
    after = repository.read_message("s", "a", 1)
    assert before is not None
    assert after is not None
    assert (after.message, after.created_at) == (changed.message, before.created_at)
    assert texts(repository.list_messages("s", "a")) == ["Hello", "Updated content", "Hello"]


def test_a_message_that_is_not_there_is_not_updated(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_update_nonexistent_message"""
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_message("s", "a", message(0))


@pytest.mark.parametrize("number", ["../escape", "not_an_int", None, []])
def test_a_number_that_is_none_is_refused(repository: TreeringSessionRepository, number: Any) -> None:  # noqa: ANN401
    """test_file_session_manager.py::test__get_message_path_invalid_message_id"""
    calls: list[Callable[[], object]] = [
        lambda: repository.read_message("s", "a", number),
        lambda: repository.create_message("s", "a", message(number)),
        lambda: repository.update_message("s", "a", message(number)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="message id must be an integer"):
            call()


def test_several_agents_together_are_created_and_read(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_create_multi_agent, ::test_read_multi_agent"""
    repository.create_multi_agent("s", Several(key="value"))
    assert repository.read_multi_agent("s", "together") == {"key": "value"}


def test_several_agents_that_are_not_there_are_none(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_read_nonexistent_multi_agent"""
    assert repository.read_multi_agent("s", "together") is None
    assert repository.read_multi_agent("another", "together") is None


def test_several_agents_together_are_updated(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_update_multi_agent"""
    repository.create_multi_agent("s", Several(key="value"))
    repository.update_multi_agent("s", Several(key="changed"))
    assert repository.read_multi_agent("s", "together") == {"key": "changed"}


def test_several_agents_that_are_not_there_are_not_updated(repository: TreeringSessionRepository) -> None:
    """test_file_session_manager.py::test_update_nonexistent_multi_agent"""
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_multi_agent("s", Several())


def test_a_manager_creates_a_session_or_uses_it(repository: TreeringSessionRepository) -> None:
    """test_repository_session_manager.py::test_init_creates_session_if_not_exists, ::test_init_uses_existing_session"""
    made = RepositorySessionManager("new", repository).session
    assert repository.read_session("new") == made
    assert RepositorySessionManager("new", repository).session == made


def test_an_agent_is_restored(repository: TreeringSessionRepository) -> None:
    """test_repository_session_manager.py::test_initialize_restores_existing_agent"""
    said: Any = [{"role": "user", "content": [{"text": "Hello"}]}]
    first = Agent(
        agent_id="b", messages=said, state={"key": "value"}, session_manager=RepositorySessionManager("s", repository)
    )
    first.state.set("key", "changed")
    first._session_manager.sync_agent(first)
    again = Agent(agent_id="b", session_manager=RepositorySessionManager("s", repository))
    assert again.state.get("key") == "changed"
    assert again.messages == first.messages


def test_an_agent_is_unique_in_a_session(repository: TreeringSessionRepository) -> None:
    """test_repository_session_manager.py::test_initialize_multiple_agents_without_id"""
    manager = RepositorySessionManager("s", repository)
    Agent(agent_id="b", session_manager=manager)
    with pytest.raises(SessionException, match="must be unique"):
        Agent(agent_id="b", session_manager=manager)


def test_what_was_summarized_is_left_out(repository: TreeringSessionRepository) -> None:
    """test_repository_session_manager.py::test_initialize_restores_existing_agent_with_summarizing_conversation_manager"""
    manager = SummarizingConversationManager()
    manager.removed_message_count = 1
    manager._summary_message = {"role": "assistant", "content": [{"text": "summary"}]}
    repository.create_agent("s", SessionAgent("b", {}, manager.get_state()))
    for number in range(2):
        repository.create_message("s", "b", message(number, f"word {number}"))
    restored = Agent(
        agent_id="b",
        conversation_manager=SummarizingConversationManager(),
        session_manager=RepositorySessionManager("s", repository),
    )
    assert [each["content"][0]["text"] for each in restored.messages] == ["summary", "word 1"]


def test_a_message_is_appended_and_redacted(repository: TreeringSessionRepository) -> None:
    """test_repository_session_manager.py::test_append_message, ::test_restore_after_redacting_alias_records_..."""
    manager = RepositorySessionManager("s", repository)
    talking = Agent(agent_id="b", session_manager=manager)
    said: Any = {"role": "user", "content": [{"text": "secret"}]}
    manager.append_message(said, talking)
    redacted: Any = {"role": "user", "content": [{"text": "[gone]"}]}
    manager.redact_latest_message(redacted, talking)
    (found,) = repository.list_messages("s", "b")
    assert (found.message, found.redact_message) == (said, redacted)
    again = Agent(agent_id="b", session_manager=RepositorySessionManager("s", repository))
    assert [each["content"] for each in again.messages] == [redacted["content"]]


def test_several_agents_together_are_restored(repository: TreeringSessionRepository) -> None:
    """test_repository_session_manager.py::test_sync_multi_agent, ::test_initialize_multi_agent_new, ::..._existing"""
    manager = RepositorySessionManager("s", repository)
    first = Several(step=1)
    manager.initialize_multi_agent(first)
    first.state = {"step": 2}
    manager.sync_multi_agent(first)
    again = Several()
    RepositorySessionManager("s", repository).initialize_multi_agent(again)
    assert again.state == {"step": 2}
