"""Sessions of the Agent Development Kit as sessions here: branches, long ones, runners, crashes, what others wrote."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("google.adk", reason="the Agent Development Kit is not installed: `make interop` does it")

from google.adk.agents import LlmAgent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from treering import Message, SessionHost, plain_text, text, tool_use
from treering import Session as OwnSession
from treering.adapters.adk import StaleSessionError, TreeringSessionService, state
from treering.adapters.adk import service as adk_service
from treering.entries import ToolResultPart, ToolUsePart, tool_result
from treering.formats.adk.events import payload_of

NAMES: dict[str, Any] = {"app_name": "app", "user_id": "ann"}


pytestmark = pytest.mark.filterwarnings("ignore:.EXPERIMENTAL:UserWarning")  # the kit's, of its own features


@pytest.fixture
def anyio_backend() -> str:
    """The kit knows no other loop."""
    return "asyncio"


def spoken(event: Event) -> str:
    """Return the words of an event."""
    parts = event.content.parts if event.content else None
    return "".join(part.text or "" for part in parts or ())


def event_of(words: str, invocation: str, author: str = "agent", **actions: Any) -> Event:  # noqa: ANN401
    """Return an event that says something."""
    content = types.Content(role="user" if author == "user" else "model", parts=[types.Part(text=words)])
    return Event(invocation_id=invocation, author=author, content=content, actions=EventActions(**actions))


# -- branches


@pytest.mark.feature("A-13")
@pytest.mark.parametrize("seed", range(6))
async def test_rewinds_are_branches_and_the_kit_gets_what_it_appended(root: str, seed: int) -> None:
    chance = random.Random(seed)
    all_of_it: list[Event] = []
    shown: list[list[Event]] = [[]]  # what the kit shows a model after so many events
    for _ in range(3):  # each time anew
        async with SessionHost(root) as host:
            service = TreeringSessionService(host)
            session = await service.get_session(**NAMES, session_id="s") or await service.create_session(
                **NAMES, session_id="s"
            )
            for _ in range(chance.randint(4, 8)):
                invocations = list(dict.fromkeys(each.invocation_id for each in all_of_it))
                if len(invocations) > 2 and chance.random() < 0.3:
                    before = chance.choice(invocations)
                    actions = EventActions(rewind_before_invocation_id=before, state_delta={"n": None})
                    added = [Event(invocation_id=f"r{len(all_of_it)}", author="user", actions=actions)]
                    first = next(at for at, each in enumerate(all_of_it) if each.invocation_id == before)
                    shown += [[*shown[first], *added]]
                else:
                    name = f"i{len(all_of_it)}"
                    added = [event_of(f"{name} {each}", name, each, state_delta={"n": name}) for each in ("user", "a")]
                    for each in added:
                        shown += [[*shown[-1], each]]
                for each in added:
                    await service.append_event(session, each)
                all_of_it += added
            found = await service.get_session(**NAMES, session_id="s")
            assert found == session
            assert found.events == all_of_it
            for most in (1, 3, 40):
                recent = await service.get_session(
                    **NAMES, session_id="s", config=GetSessionConfig(num_recent_events=most)
                )
                assert recent is not None
                assert recent.events == all_of_it[-most:]
            own = await host.get_or_create("app/ann/s")
            words = [spoken(each) for each in shown[-1] if each.content]
            assert [plain_text(each.content) for each in await own.messages()] == words


@pytest.mark.feature("A-13")
async def test_an_object_is_stale_after_another_program_moved_the_leaf(root: str) -> None:
    async with SessionHost(root) as host:
        service = TreeringSessionService(host)
        session = await service.create_session(**NAMES, session_id="s")
        for words in ("one", "two", "three"):
            await service.append_event(session, event_of(words, words))
        own = await host.get_or_create("app/ann/s")
        await own.set_label(own.path()[-1], "here")  # which changes no event
        await service.append_event(session, event_of("four", "four"))
        await own.branch(own.path()[1])
        with pytest.raises(StaleSessionError):
            await service.append_event(session, event_of("never", "never"))
        session = await service.get_session(**NAMES, session_id="s") or session
        await service.append_event(session, event_of("another", "another"))
        assert [spoken(each) for each in session.events] == ["one", "another"]
        assert await service.get_session(**NAMES, session_id="s") == session
        assert [plain_text(each.content) for each in await own.messages()] == ["one", "another"]
        assert own.message_count == 5


@pytest.mark.feature("A-13")
async def test_of_several_services_that_append_at_once_one_is_first_and_the_others_are_stale(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_of = state.known_of

    async def in_turn(session: OwnSession) -> state.Known:  # as where reading takes time
        await asyncio.sleep(0)
        return await known_of(session)

    monkeypatch.setattr(adk_service, "known_of", in_turn)
    async with SessionHost(root) as host:
        services = [TreeringSessionService(host) for _ in range(4)]  # none knows of the others
        await services[0].create_session(**NAMES, session_id="s")
        for number in range(1, 9):
            copies = [await each.get_session(**NAMES, session_id="s") for each in services]
            appends = [
                service.append_event(copy, event_of(str(number), str(number)))
                for service, copy in zip(services, copies, strict=True)
                if copy is not None
            ]
            outcomes = await asyncio.gather(*appends, return_exceptions=True)
            assert sum(isinstance(each, Event) for each in outcomes) == 1
            assert sum(isinstance(each, StaleSessionError) for each in outcomes) == 3
            found = await services[0].get_session(**NAMES, session_id="s")
            assert found is not None
            assert len(found.events) == number
        own = await host.get_or_create("app/ann/s")
        assert len(await own.messages()) == 8 == own.message_count


# -- events as messages, and messages as events


async def test_events_are_messages_for_search_views_and_other_programs(root: str) -> None:
    call = types.Part(function_call=types.FunctionCall(id="c1", name="track", args={"number": "Z9", "n": 1.0}))
    answer = types.FunctionResponse(id="c1", name="track", response={"place": "Lisbon", "n": 1.0})
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=30, cached_content_token_count=10, candidates_token_count=4, thoughts_token_count=2
    )
    thought = types.Part(text="Hm.", thought=True, thought_signature=b"\xff\xfb")
    odd = [
        types.Part(executable_code=types.ExecutableCode(code="print(1)", language=types.Language.PYTHON)),
        types.Part.from_bytes(data=b"\xff\xfb\xf0", mime_type="audio/wav"),
        types.Part.from_uri(file_uri="gs://bucket/plan.pdf", mime_type="application/pdf"),
        types.Part(function_response=types.FunctionResponse(id="c2", name="f", response={"error": "no", "code": 5})),
        types.Part.from_bytes(data=b"\xff\xfb\xf0", mime_type="image/png"),
        types.Part(text="", thought_signature=b"1"),
    ]
    events = [
        event_of("Where is Z9?", "i", "user"),
        Event(
            author="agent",
            content=types.Content(role="model", parts=[thought, call]),
            usage_metadata=usage,
            model_version="gemini-3-pro",
        ),
        Event(author="agent", content=types.Content(role="user", parts=[types.Part(function_response=answer)])),
        Event(author="agent", content=types.Content(role="model", parts=odd)),
        Event(author="agent", error_code="SAFETY", error_message="refused"),
    ]
    async with SessionHost(root) as host:
        service = TreeringSessionService(host)
        session = await service.create_session(**NAMES, session_id="s")
        for each in events:
            await service.append_event(session, each)
        assert await service.get_session(**NAMES, session_id="s") == session
        own = await host.get_or_create("app/ann/s")
        messages = await own.messages()
        assert [each.role for each in messages] == ["user", "assistant", "tool", "assistant", "assistant"]
        assert messages[1].content[1] == tool_use("c1", "track", {"number": "Z9", "n": 1.0})
        assert messages[1].usage is not None
        assert (messages[1].usage.input_tokens, messages[1].usage.output_tokens) == (20, 6)
        assert (messages[1].model, messages[1].provider) == ("gemini-3-pro", "google")
        assert (messages[4].error, [each.type for each in messages[3].content][4]) == ("refused", "image")
        assert messages[2].metadata["adk_event"]["event"]["content"]["parts"] == [None]  # type: ignore[call-overload,index]  # JSON
        assert [hit.session_id async for hit in host.search("Lisbon")] == [own.id]
        (row,) = await host.list_sessions()
        assert (row.title, row.user_count) == ("Where is Z9?", 1)


async def test_what_another_program_wrote_is_said_to_the_kit_as_events(root: str) -> None:
    async with SessionHost(root) as host:
        own = await host.get_or_create("app/ann/s")
        await own.append_message("user", "Hi")
        await own.append(Message("assistant", (text("Let me look."), tool_use("c", "look", {"at": 1}))))
        await own.append(Message("tool", (tool_result("c", "A cat."),), tool_name="look"))
        service = TreeringSessionService(host)
        session = await service.get_session(**NAMES, session_id="s")
        assert session is not None
        assert [(each.author, each.content.role) for each in session.events if each.content] == [
            ("user", "user"),
            ("app", "model"),
            ("app", "user"),
        ]
        assert session.events[2].get_function_responses()[0].response == {"output": "A cat."}
        await service.append_event(session, event_of("A cat.", "i"))
        found = await service.get_session(**NAMES, session_id="s")
        assert found is not None
        assert [each.content for each in found.events] == [each.content for each in session.events]
        assert [each.author for each in found.events] == ["user", "agent", "agent", "agent"]  # who it is, is known now
        await service.append_event(
            session, Event(author="user", actions=EventActions(rewind_before_invocation_id=session.events[1].id))
        )
        assert [plain_text(each.content) for each in await own.messages()] == ["Hi"]


# -- long sessions


def bytes_read() -> int:
    """Return how many bytes this process has read so far."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.feature("A-14")
@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="only Linux counts what a process reads")
async def test_the_end_of_a_long_session_is_read_without_its_beginning(root: str) -> None:
    async with SessionHost(root) as host:
        service = TreeringSessionService(host)
        session = await service.create_session(**NAMES, session_id="s")
        events = [
            event_of(
                f"{number} " + "x" * 1000, f"i{number // 4}", "agent" if number % 4 else "user", state_delta={"n": 1}
            )
            for number in range(4800)
        ]
        own = await host.get_or_create("app/ann/s")  # all but the last one in a batch, as the service appends each
        data = [each.model_dump(mode="json", by_alias=True, exclude_defaults=True) for each in events]
        await own.append_many([payload_of(each) for each in data[:-1]])
        session = await service.get_session(**NAMES, session_id="s") or session
        await service.append_event(session, events[-1])
        assert session.events == events
        size = sum(len(each.model_dump_json(exclude_defaults=True)) for each in events)
    async with SessionHost(root) as host:
        service = TreeringSessionService(host)

        async def read(**config: float) -> tuple[Session, int]:
            before = bytes_read()
            found = await service.get_session(**NAMES, session_id="s", config=GetSessionConfig(**config))
            assert found is not None
            return found, bytes_read() - before

        first, cold = await read(num_recent_events=20)
        assert (first.events, first.state) == (session.events[-20:], {"n": 1})
        again, warm = await read(num_recent_events=20)
        assert again == first
        since, late = await read(after_timestamp=session.events[-5].timestamp)
        assert since.events == session.events[-5:]
        assert cold < size / 15  # the index of the log, and the end
        assert max(warm, late) < size / 50
        whole, _ = await read()
        assert whole == session


@pytest.mark.feature("A-13")
async def test_processes_change_the_state_of_one_app_by_turns(root: str) -> None:
    async with SessionHost(root) as host, SessionHost(root) as other:
        services = [TreeringSessionService(host), TreeringSessionService(other)]
        for at, service in enumerate(services):
            await service.create_session(**NAMES, session_id=f"s{at}", state={"app:count": at})
        for at, service in enumerate(services):
            session = await service.get_session(**NAMES, session_id=f"s{at}")
            assert session is not None
            assert session.state == {"app:count": 1 + 9 * at}
            await service.append_event(
                session, Event(author="user", actions=EventActions(state_delta={"app:count": 10}))
            )


# -- runners


class Script(BaseLlm):
    """A model that answers what it is told to, and keeps what it is asked."""

    answers: list[Callable[[], types.Part]]
    asked: list[list[str]]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Give the next answer, and first a part of it."""
        self.asked.append([part.text for each in llm_request.contents for part in each.parts or () if part.text])
        part = self.answers.pop(0)()
        if part.text:
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=part.text[:3])]), partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


@pytest.mark.feature("A-15")
@pytest.mark.parametrize("shared", [True, False], ids=["root", "host"])
async def test_a_runner_with_tools_several_invocations_and_a_rewind(root: str, shared: bool) -> None:
    def track(number: str) -> dict[str, str]:
        """Say where a parcel is."""
        return {"place": f"{number} is in Lisbon"}

    async def ask(service: TreeringSessionService, words: str, *answers: str | tuple[str, dict[str, str]]) -> list[str]:
        """Run an invocation, and return what the model was asked at its end."""
        model = Script(model="script", answers=[said(each) for each in answers], asked=[])
        agent = LlmAgent(name="helper", model=model, tools=[track], output_key="last")
        runner = Runner(agent=agent, app_name="app", session_service=service)
        message = types.Content(role="user", parts=[types.Part(text=words)])
        events = [each async for each in runner.run_async(user_id="ann", session_id="s", new_message=message)]
        assert spoken(events[-1]) == answers[-1]
        assert model.answers == []
        return model.asked[-1]

    def said(answer: str | tuple[str, dict[str, str]]) -> Callable[[], types.Part]:
        if isinstance(answer, str):
            return lambda: types.Part(text=answer)
        return lambda: types.Part(function_call=types.FunctionCall(name=answer[0], args=answer[1]))

    def words_of(messages: Sequence[Message]) -> list[str]:
        return [words for each in messages if (words := plain_text(each.content))]

    async with SessionHost(root + "-own") as host:
        service = TreeringSessionService(root if shared else host)
        await service.create_session(**NAMES, session_id="s")
        assert await ask(service, "Where is Z9?", ("track", {"number": "Z9"}), "In Lisbon.") == ["Where is Z9?"]
        assert await ask(service, "And Z8?", "Lost.") == ["Where is Z9?", "In Lisbon.", "And Z8?"]
        before = await service.get_session(**NAMES, session_id="s")
        assert before is not None
        assert before.state == {"last": "Lost."}
        assert not any(each.partial for each in before.events)
        wrong = next(each.invocation_id for each in before.events if spoken(each) == "And Z8?")
        runner = Runner(
            agent=LlmAgent(name="helper", model=Script(model="script", answers=[], asked=[])),
            app_name="app",
            session_service=service,
        )
        await runner.rewind_async(user_id="ann", session_id="s", rewind_before_invocation_id=wrong)
        rewound = await service.get_session(**NAMES, session_id="s")
        assert rewound is not None
        assert rewound.state == {"last": "In Lisbon."}
        assert rewound.events[:-1] == before.events
        assert await ask(service, "And Z7?", "At sea.") == ["Where is Z9?", "In Lisbon.", "And Z7?"]
        if not shared:
            own = await host.get_or_create("app/ann/s")
            assert words_of(await own.messages()) == ["Where is Z9?", "In Lisbon.", "And Z7?", "At sea."]
            assert words_of(await own.all_messages())[2:4] == ["And Z8?", "Lost."]
            parts = [part for each in await own.messages() for part in each.content]
            (call,) = (part.tool_use.id for part in parts if isinstance(part, ToolUsePart))
            assert [part.tool_result.tool_use_id for part in parts if isinstance(part, ToolResultPart)] == [call]


# -- crashes

KILLED = """
import asyncio, os, signal, sys
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from treering.adapters.adk import service as adk
from treering.adapters.adk import TreeringSessionService

async def main(root, at):
    service = TreeringSessionService(root)
    session = await service.create_session(app_name="app", user_id="ann", session_id="s")
    write, calls = adk.write, []
    async def killed(*arguments):
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        calls.append(1)
        await write(*arguments)
    adk.write = killed
    for number in range(3):
        delta = {"n": number, "app:n": number, "user:n": number}
        await service.append_event(session, Event(author="a", actions=EventActions(state_delta=delta)))
        print(number, flush=True)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.feature("A-13")
@pytest.mark.parametrize("at", [2, 3])
@pytest.mark.parametrize("meanwhile", [False, True])
async def test_a_kill_between_an_event_and_others_state_loses_neither(root: str, at: int, meanwhile: bool) -> None:
    done = await anyio.run_process([sys.executable, "-W", "ignore", "-c", KILLED, root, str(at)], check=False)
    assert (done.returncode, done.stdout) == (-9, b"0\n"), done.stderr
    service = TreeringSessionService(root)
    if meanwhile:  # what was written after the kill is not overwritten by what comes late
        other = await service.create_session(**NAMES, session_id="other")
        await service.append_event(other, Event(author="a", actions=EventActions(state_delta={"app:n": "later"})))
    session = await service.get_session(**NAMES, session_id="s")
    assert session is not None
    assert [each.actions.state_delta["n"] for each in session.events] == [0, 1]
    assert session.state == {"n": 1, "app:n": "later" if meanwhile else 1, "user:n": 1}
    await service.append_event(session, Event(author="a", actions=EventActions(state_delta={"app:n": 5})))
    again = await service.get_session(**NAMES, session_id="s")
    assert again is not None
    assert again.state["app:n"] == 5
