"""Sessions of Google's Agent Development Kit: what its own session-service tests ask of a service, one test for each.

The names of these tests are those of the kit's, in tests/unittests/sessions/test_session_service.py at 2.13.0. What
that file asks of its own databases alone (tables, engines, transactions) has no meaning here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="the Agent Development Kit is not installed: `make interop` does it")

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

from treering import SessionHost
from treering.adapters.adk import StaleSessionError, TreeringSessionService
from treering.errors import InvalidEntry

APP = "an app/of mine"
State = dict[str, Any]


pytestmark = pytest.mark.filterwarnings("ignore:.EXPERIMENTAL:UserWarning")  # the kit's, of its own features


@pytest.fixture
def anyio_backend() -> str:
    """The kit knows no other loop."""
    return "asyncio"


@pytest.fixture(params=["root", "host"])
async def service(request: pytest.FixtureRequest, root: str) -> AsyncIterator[TreeringSessionService]:
    """A service whose host is in a thread of its own, and one whose host is here."""
    if request.param == "root":
        yield TreeringSessionService(root)
    else:
        async with SessionHost(root) as host:
            yield TreeringSessionService(host)


async def made(service: TreeringSessionService, user: str = "ann", id: str | None = "s", **state: Any) -> Session:  # noqa: ANN401
    """Create a session; an underscore in the name of a value stands for the colon of its scope."""
    values = {name.replace("_", ":", 1): value for name, value in state.items()}
    return await service.create_session(app_name=APP, user_id=user, session_id=id, state=values)


async def got(service: TreeringSessionService, user: str = "ann", id: str = "s", **config: Any) -> Session:  # noqa: ANN401
    """Return a session that is there."""
    wanted = GetSessionConfig(**config) if config else None
    found = await service.get_session(app_name=APP, user_id=user, session_id=id, config=wanted)
    assert found is not None
    return found


async def changed(service: TreeringSessionService, session: Session, delta: State, **more: Any) -> Event:  # noqa: ANN401
    """Append an event that changes the state."""
    return await service.append_event(
        session, Event(invocation_id="i", author="user", actions=EventActions(state_delta=delta), **more)
    )


async def listed(service: TreeringSessionService, user: str | None = None) -> dict[str, State]:
    """Return the states of all sessions in the order of the listing."""
    found = (await service.list_sessions(app_name=APP, user_id=user)).sessions
    assert not any(each.events for each in found)
    return {each.id: each.state for each in found}


contract = pytest.mark.feature("A-12")
scopes = pytest.mark.feature("A-12", "A-13")


@contract
async def test_get_empty_session(service: TreeringSessionService) -> None:
    assert await service.get_session(app_name=APP, user_id="ann", session_id="none") is None


@contract
async def test_create_get_session(service: TreeringSessionService) -> None:
    before = time.time()
    session = await made(service, id=None, key="value")
    assert (session.app_name, session.user_id, session.state) == (APP, "ann", {"key": "value"})
    assert before <= session.last_update_time <= time.time()
    assert await got(service, id=session.id) == session
    await service.delete_session(app_name=APP, user_id="ann", session_id=session.id)
    assert await service.get_session(app_name=APP, user_id="ann", session_id=session.id) is None
    assert await listed(service) == {}
    await service.delete_session(app_name=APP, user_id="ann", session_id=session.id)  # again, which does nothing


@contract
async def test_create_and_list_sessions(service: TreeringSessionService) -> None:
    for number in range(5):
        await made(service, id=f"s{number}", key=number)
    assert await listed(service, "ann") == {f"s{number}": {"key": number} for number in range(5)}


@contract
async def test_list_sessions_ordered_by_last_update_time(service: TreeringSessionService) -> None:
    for each in "abc":
        session = await made(service, id=each)
    await changed(service, await got(service, id="a"), {}, timestamp=session.last_update_time + 1)
    assert list(await listed(service)) == ["b", "c", "a"]


@contract
async def test_list_sessions_all_users(service: TreeringSessionService) -> None:
    await made(service, "ann", "a", user_k=1)
    await made(service, "ann", "b")
    await made(service, "bob", "c", app_k=2)
    assert await listed(service, "ann") == {each: {"app:k": 2, "user:k": 1} for each in "ab"}
    assert await listed(service, "bob") == {"c": {"app:k": 2}}
    assert list(await listed(service)) == ["a", "b", "c"]
    assert (await service.list_sessions(app_name="another")).sessions == []


@scopes
async def test_app_state_is_shared_by_all_users_of_app(service: TreeringSessionService) -> None:
    session = await made(service, app_one=1)
    await changed(service, session, {"app:two": 2})
    assert (await made(service, "bob")).state == {"app:one": 1, "app:two": 2} == (await got(service)).state


@scopes
async def test_user_state_is_shared_only_by_user_sessions(service: TreeringSessionService) -> None:
    session = await made(service, user_one=1)
    await changed(service, session, {"user:two": 2})
    assert (await made(service, id="other")).state == {"user:one": 1, "user:two": 2}
    assert (await made(service, "bob")).state == {}


@scopes
async def test_session_state_is_not_shared(service: TreeringSessionService) -> None:
    await changed(service, await made(service, one=1), {"two": 2})
    assert (await got(service)).state == {"one": 1, "two": 2}
    assert (await made(service, id="other")).state == {}


@scopes
@pytest.mark.parametrize("scope", ["", "app:", "user:"])
async def test_dict_valued_state_delta_replaces_stored_value(service: TreeringSessionService, scope: str) -> None:
    session = await service.create_session(app_name=APP, user_id="ann", session_id="s", state={scope + "k": {"a": 1}})
    await changed(service, session, {scope + "k": {"b": 2}})
    assert session.state == {scope + "k": {"b": 2}} == (await got(service)).state


@scopes
@pytest.mark.parametrize("scope", ["", "app:", "user:"])
async def test_none_valued_state_delta_is_stored_not_dropped(service: TreeringSessionService, scope: str) -> None:
    session = await service.create_session(app_name=APP, user_id="ann", session_id="s", state={scope + "k": True})
    await changed(service, session, {scope + "k": None})
    found = await got(service)
    assert session.state == {scope + "k": None} == found.state == found.events[0].actions.state_delta


@scopes
async def test_boolean_state_survives_unrelated_state_delta(service: TreeringSessionService) -> None:
    await changed(service, await made(service, flag=False, one=1, real=1.0), {"new": True})
    state = (await got(service)).state
    assert [repr(state[name]) for name in ("flag", "new", "one", "real")] == ["False", "True", "1", "1.0"]


@scopes
async def test_temp_state_is_not_persisted_in_state_or_events(service: TreeringSessionService) -> None:
    session = await made(service, temp_begun=0)
    event = await changed(service, session, {"temp:k": 1, "k": 2})
    assert session.state == {"temp:k": 1, "k": 2}
    assert event.actions.state_delta == {"k": 2}
    found = await got(service)
    assert found.state == {"k": 2} == found.events[0].actions.state_delta


@scopes
async def test_temp_state_visible_across_sequential_events(service: TreeringSessionService) -> None:
    session = await made(service)
    await changed(service, session, {"temp:out": "from one"})
    await changed(service, session, {})
    assert session.state == {"temp:out": "from one"}


@contract
async def test_get_session_respects_user_id(service: TreeringSessionService) -> None:
    await changed(service, await made(service, "ann"), {})
    await made(service, "bob")
    assert len((await got(service, "ann")).events) == 1
    assert (await got(service, "bob")).events == []


@contract
async def test_create_session_with_existing_id_raises_error(service: TreeringSessionService) -> None:
    await made(service, keep=1)
    with pytest.raises(AlreadyExistsError):
        await made(service, keep=2)
    assert (await got(service)).state == {"keep": 1}


@contract
async def test_padded_session_id_reads_and_deletes(service: TreeringSessionService) -> None:
    assert (await made(service, id="  s ")).id == "s"
    with pytest.raises(AlreadyExistsError):
        await made(service, id="s  ")
    assert (await got(service, id=" s")).id == "s"
    await service.delete_session(app_name=APP, user_id="ann", session_id=" s ")
    assert await service.get_session(app_name=APP, user_id="ann", session_id="s") is None


@contract
async def test_create_session_with_blank_id_generates_one(service: TreeringSessionService) -> None:
    assert (await made(service, id="   ")).id.strip()


@contract
async def test_create_session_concurrent_same_id_raises_already_exists_error(service: TreeringSessionService) -> None:
    outcomes = await asyncio.gather(*(made(service, one=number) for number in range(5)), return_exceptions=True)
    (winner,) = (each for each in outcomes if isinstance(each, Session))
    assert sum(isinstance(each, AlreadyExistsError) for each in outcomes) == 4
    assert await got(service) == winner


@contract
async def test_append_event_bytes(service: TreeringSessionService) -> None:
    session = await made(service)
    content = types.Content(role="user", parts=[types.Part.from_bytes(data=b"\xff\xfb\0", mime_type="image/png")])
    grounding = types.GroundingMetadata(search_entry_point=types.SearchEntryPoint(sdk_blob=b"\xff\xfb"))
    await service.append_event(session, Event(author="user", content=content, grounding_metadata=grounding))
    (event,) = (await got(service)).events
    assert (event.content, event.grounding_metadata) == (content, grounding)


@contract
async def test_append_event_complete(service: TreeringSessionService) -> None:
    session = await made(service)
    event = Event(
        invocation_id="i",
        author="agent",
        content=types.Content(role="model", parts=[types.Part(text="words")]),
        turn_complete=True,
        partial=False,
        actions=EventActions(artifact_delta={"file": 0}, transfer_to_agent="other", escalate=True),
        long_running_tool_ids={"b", "a"},
        error_code="a code",
        error_message="what happened",
        interrupted=True,
        finish_reason=types.FinishReason.MAX_TOKENS,
        grounding_metadata=types.GroundingMetadata(web_search_queries=["query"]),
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=3, candidates_token_count=4),
        citation_metadata=types.CitationMetadata(),
        custom_metadata={"key": [1, {"deep": None}]},
        timestamp=1700000000.123,
        input_transcription=types.Transcription(text="heard", finished=True),
        branch="one.two",
        output={"any": "thing"},
    )
    await service.append_event(session, event)
    assert await got(service) == session


@contract
async def test_append_event_with_requested_tool_confirmations(service: TreeringSessionService) -> None:
    asked = {"call": ToolConfirmation(hint="sure?", confirmed=False, payload={"album": "one"})}
    session = await made(service)
    await service.append_event(session, Event(author="a", actions=EventActions(requested_tool_confirmations=asked)))
    assert (await got(service)).events[0].actions.requested_tool_confirmations == asked


@contract
async def test_append_event_with_non_serializable_state_delta(service: TreeringSessionService) -> None:
    session = await made(service, call=print)
    await changed(service, session, {"callback": lambda: 1, "ok": 2})
    state = (await got(service)).state
    assert state["ok"] == 2
    assert isinstance(state["callback"], str)
    assert isinstance(state["call"], str)
    with pytest.raises(InvalidEntry):  # what the kit itself cannot write
        await service.append_event(session, Event(author="a", output=object()))
    assert len((await got(service)).events) == 1 == len(session.events)


@contract
async def test_session_last_update_time_updates_on_event(service: TreeringSessionService) -> None:
    session = await made(service)
    moment = session.last_update_time + 10
    await changed(service, session, {}, timestamp=moment)
    assert session.last_update_time == moment == (await got(service)).last_update_time


@contract
async def test_append_event_to_deleted_session_raises_session_not_found(service: TreeringSessionService) -> None:
    session = await made(service)
    await service.delete_session(app_name=APP, user_id="ann", session_id="s")
    with pytest.raises(SessionNotFoundError):
        await changed(service, session, {})
    assert session.events == []


@contract
async def test_append_event_to_unknown_session_raises_session_not_found(service: TreeringSessionService) -> None:
    with pytest.raises(SessionNotFoundError):
        await changed(service, Session(app_name=APP, user_id="ann", id="never"), {})
    assert await service.get_session(app_name=APP, user_id="ann", session_id="never") is None


@scopes
async def test_append_event_to_stale_session(service: TreeringSessionService) -> None:
    stale = await made(service)
    await changed(service, stale, {"one": 1})
    fresh = await got(service)
    await changed(service, fresh, {"two": 2, "app:two": 2}, timestamp=stale.last_update_time + 1)
    with pytest.raises(StaleSessionError, match="modified in storage"):
        await changed(service, stale, {"three": 3, "app:three": 3})
    assert (len(stale.events), stale.state) == (1, {"one": 1})
    final = await got(service)
    assert (len(final.events), final.state) == (2, {"one": 1, "two": 2, "app:two": 2})


@scopes
async def test_append_event_concurrent_stale_sessions_reject_stale_writer(service: TreeringSessionService) -> None:
    await made(service)
    for number in range(8):
        latest = await got(service)
        both = [changed(service, latest.model_copy(deep=True), {f"{number}-{at}": at}) for at in range(2)]
        outcomes = await asyncio.gather(*both, return_exceptions=True)
        assert sorted(type(each).__name__ for each in outcomes) == ["Event", StaleSessionError.__name__]
    final = await got(service)
    assert len(final.events) == 8 == len(final.state)


@scopes
async def test_append_event_allows_timestamp_drift_for_current_session(service: TreeringSessionService) -> None:
    session = await made(service)
    await changed(service, session, {}, timestamp=session.last_update_time + 10)
    session.last_update_time -= 0.0001
    await changed(service, session, {})
    assert len((await got(service)).events) == 2


@scopes
async def test_append_event_allows_markerless_current_session(service: TreeringSessionService) -> None:
    session = await made(service)
    await changed(service, session, {}, timestamp=session.last_update_time + 10)
    copied = Session.model_validate_json(session.model_dump_json())  # which has no marker
    copied.last_update_time -= 0.0001
    await changed(service, copied, {}, timestamp=session.last_update_time + 10)
    old = Session.model_validate_json(session.model_dump_json())
    with pytest.raises(StaleSessionError):
        await changed(service, old, {})
    assert len((await got(service)).events) == 2


@contract
async def test_get_session_with_config(service: TreeringSessionService) -> None:
    session = await made(service)
    begun = session.last_update_time
    for number in range(1, 6):
        await changed(service, session, {"n": number}, timestamp=begun + number)

    async def numbers(**config: Any) -> list[int]:  # noqa: ANN401
        found = await got(service, **config)
        assert found.state == {"n": 5}
        return [each.actions.state_delta["n"] for each in found.events]

    assert await numbers() == [1, 2, 3, 4, 5]
    assert await numbers(num_recent_events=0) == []
    assert await numbers(num_recent_events=3) == [3, 4, 5]
    assert await numbers(num_recent_events=9) == [1, 2, 3, 4, 5]
    assert await numbers(after_timestamp=begun + 4) == [4, 5]
    assert await numbers(after_timestamp=begun + 50) == []
    assert await numbers(after_timestamp=begun) == [1, 2, 3, 4, 5]
    assert await numbers(after_timestamp=begun + 4, num_recent_events=3) == [4, 5]
    assert await numbers(after_timestamp=begun + 2, num_recent_events=3) == [3, 4, 5]
    with pytest.raises(ValueError, match="num_recent_events"):
        await numbers(num_recent_events=-1)
    for config in ({"num_recent_events": 0}, {"after_timestamp": begun + 50}):  # and none of them makes it stale
        await changed(service, await got(service, **config), {"n": 5}, timestamp=begun + 5)


@scopes
async def test_partial_events_are_not_persisted(service: TreeringSessionService) -> None:
    session = await made(service)
    await changed(service, session, {"k": 1, "app:k": 1}, partial=True)
    assert session == await got(service)
    assert (session.events, session.state) == ([], {})


@scopes
async def test_get_user_state_returns_state_written_via_append_event(service: TreeringSessionService) -> None:
    assert await service.get_user_state(app_name=APP, user_id="ann") == {}
    session = await made(service)
    await changed(service, session, {"user:profile": {"name": "Ann"}, "own": 1})
    await changed(service, session, {"user:count": 1})
    await changed(service, session, {"user:count": 2})
    state = await service.get_user_state(app_name=APP, user_id="ann")
    assert state == {"profile": {"name": "Ann"}, "count": 2}
    state["profile"]["name"] = "Bob"  # which changes nothing that is stored
    assert (await got(service)).state["user:profile"] == {"name": "Ann"}


@scopes
async def test_get_user_state_is_not_visible_across_users_and_apps(service: TreeringSessionService) -> None:
    await changed(service, await made(service), {"user:secret": 1})
    assert await service.get_user_state(app_name=APP, user_id="bob") == {}
    assert await service.get_user_state(app_name="another", user_id="ann") == {}


@contract
async def test_get_session_keeps_exact_epoch_across_a_repeated_local_hour(service: TreeringSessionService) -> None:
    session = await made(service)
    moments = [1730613600.0, 1730615400.0]
    for moment in moments:
        await changed(service, session, {}, timestamp=moment)
    assert [each.timestamp for each in (await got(service)).events] == moments


@contract
async def test_get_session_orders_tied_timestamps_by_append_order(service: TreeringSessionService) -> None:
    session = await made(service)
    for id in ("z", "a", "m"):
        await changed(service, session, {}, timestamp=100.0, id=id)
    assert [each.id for each in (await got(service)).events] == ["z", "a", "m"]
    assert [each.id for each in (await got(service, num_recent_events=2)).events] == ["a", "m"]


@contract
async def test_append_event_is_idempotent_for_same_event_id(service: TreeringSessionService) -> None:
    session = await made(service)
    event = await changed(service, session, {"count": 1, "app:count": 1})
    await service.append_event(session, event)
    await service.append_event(session, event.model_copy(deep=True))
    assert len(session.events) == 1 == len((await got(service)).events)


@contract
async def test_append_different_events_not_deduplicated(service: TreeringSessionService) -> None:
    session = await made(service)
    for author in ("user", "agent"):
        await service.append_event(session, Event(id="shared", invocation_id="i", author=author))
    assert [each.author for each in (await got(service)).events] == ["user", "agent"]
