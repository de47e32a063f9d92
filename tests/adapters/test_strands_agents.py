"""Agents of Strands over our sessions: what is written for them, other programs, branches, and loops that go on."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="Strands Agents is not installed: `make interop` does it")

from strands import Agent, tool
from strands.models import Model
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType
from tests.docs.test_samples import run, samples_of

import treering
from treering import Message, SessionHost, plain_text, text
from treering.adapters.strands import TreeringSessionRepository
from treering.entries import ImagePart, ThinkingPart, ToolResultPart, ToolUsePart
from treering.errors import AppendFailed, InvalidEntry, WrongThread
from treering.events.disk import OsDisk
from treering.events.telemetry import logging_to
from treering.sync import SyncHost
from treering.testing.disks.wrapped import WrappedDisk

from .environments import PROJECT


@pytest.fixture
def anyio_backend() -> str:
    """The framework knows no other loop."""
    return "asyncio"


class Script(Model):
    """A model that says or calls what it is told to, and keeps what it is asked."""

    def __init__(self, *answers: str | dict[str, Any]) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    def get_config(self) -> dict[str, Any]:
        """Return nothing: it has no settings."""
        return {}

    def update_config(self, **model_config: object) -> None:
        """Do nothing: it has no settings."""

    async def structured_output(self, *_: object, **__: object) -> AsyncGenerator[dict[str, Any]]:
        """Answer nothing."""
        yield {}

    async def stream(self, messages: list[Any], *_: object, **__: object) -> AsyncGenerator[dict[str, Any]]:
        """Answer by events, as the providers' models do."""
        self.asked.append(json.loads(json.dumps(messages)))
        answer = self.answers.pop(0)
        called = isinstance(answer, dict)
        start = {"toolUse": {"name": "track", "toolUseId": "c1"}} if called else {}
        delta = {"toolUse": {"input": json.dumps(answer)}} if called else {"text": answer}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": start}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if called else "end_turn"}}
        usage = {"inputTokens": 10, "outputTokens": 4, "totalTokens": 14}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


@tool
def track(number: str) -> str:
    """Say where a parcel is.

    Args:
        number: The parcel.
    """
    return f"{number} is in Lisbon"


def agent(repository: TreeringSessionRepository, model: Script, session_id: str = "support-42") -> Agent:
    """Return an agent whose conversation is in a repository, as one in another process would be."""
    manager = RepositorySessionManager(session_id, repository)
    return Agent(model=model, tools=[track], agent_id="helper", session_manager=manager, callback_handler=None)


def texts(messages: list[Any]) -> list[str]:
    """Return what messages say in words."""
    return [block["text"] for each in messages for block in each["content"] if "text" in block]


@pytest.mark.feature("A-22")
async def test_an_agent_remembers_with_its_tools(root: str) -> None:
    with SyncHost(root) as host:
        repository = TreeringSessionRepository(host)
        first = agent(repository, Script({"number": "Z9"}, "In Lisbon."))
        first.state.set("asked", 1)
        await first.invoke_async("Where is Z9?")
        second_model = Script("Lost.")
        second = agent(TreeringSessionRepository(host), second_model)
        assert second.messages == first.messages
        assert second.state.get("asked") == 1
        await second.invoke_async("And Z8?")
        assert texts(second_model.asked[0]) == ["Where is Z9?", "In Lisbon.", "And Z8?"]
        own = host.find_by_key("support-42/helper")
        assert own is not None
        messages = own.messages()
        assert [each.role for each in messages] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
        (called,) = (part.tool_use for part in messages[1].content if isinstance(part, ToolUsePart))
        (answered,) = (part.tool_result for part in messages[2].content if isinstance(part, ToolResultPart))
        assert (called.name, called.input, called.id) == ("track", {"number": "Z9"}, answered.tool_use_id)
        assert answered.text == "Z9 is in Lisbon"
        assert [hit.session_id for hit in host.search("Lost")] == [own.id]
        if messages[-1].usage is not None:  # releases that keep it with the message
            assert (messages[-1].usage.input_tokens, messages[-1].usage.output_tokens) == (10, 4)


async def test_every_kind_of_block_comes_back_equal(root: str) -> None:
    blocks: list[Any] = [  # one of each kind
        {"text": "words"},
        {"text": ""},
        {"toolUse": {"toolUseId": "c", "name": "f", "input": {"a": [1.0, True, None]}}},
        {"toolUse": {"toolUseId": "c", "name": "f", "input": {}, "reasoningSignature": "sealed"}},
        {"toolResult": {"toolUseId": "c", "status": "success", "content": [{"text": "done"}]}},
        {"toolResult": {"toolUseId": "c", "status": "error", "content": [{"json": {"a": 1.0}}, {"text": "b"}]}},
        {"toolResult": {"toolUseId": "c", "content": []}},
        {"toolResult": {"toolUseId": "c", "content": [{"image": {"format": "png", "source": {"bytes": b"\xff\xfb"}}}]}},
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sealed"}}},
        {"reasoningContent": {"redactedContent": b"\x00\xff"}},
        {"image": {"format": "png", "source": {"bytes": b"\xff\xfb\xf0"}}},
        {"image": {"format": "png", "source": {"location": {"type": "s3", "uri": "s3://a/b"}}}},
        {"document": {"format": "pdf", "name": "plan", "source": {"bytes": b"%PDF"}}},
        {"video": {"format": "mp4", "source": {"bytes": b"\x01"}}},
        {"cachePoint": {"type": "default"}},
        {"guardContent": {"text": {"text": "guarded", "qualifiers": ["query"]}}},
        {"citationsContent": {"content": [{"text": "cited"}], "citations": [{"title": "t", "location": {}}]}},
        {"a kind of tomorrow": {"text": 1}},
    ]
    usage = {"inputTokens": 30, "outputTokens": 4, "totalTokens": 34, "cacheReadInputTokens": 20}
    said: list[Any] = [{"role": "assistant", "content": [each]} for each in blocks]
    said += [{"role": "user", "content": [each]} for each in blocks if "toolResult" in each]
    whole: Any = {"role": "assistant", "content": blocks, "tracking_id": "t1", "metadata": {"usage": usage}}
    said += [whole, {"role": "user", "content": []}]
    records = [SessionMessage.from_message(each, number) for number, each in enumerate(said)]
    records[1].redact_message = {"role": "user", "content": [{"text": "gone"}]}
    with SyncHost(root) as host:
        repository = TreeringSessionRepository(host)
        repository.create_session(Session("s", SessionType.AGENT))
        repository.create_agent("s", SessionAgent("a", {}, {}))
        for each in records:
            repository.create_message("s", "a", each)
            repository.create_message("s", "a", each)  # sent again: it is there once
        assert repository.list_messages("s", "a") == records
        assert [repository.read_message("s", "a", number) for number in range(len(records))] == records
        bad: Any = {"role": "user", "content": [{"json": {"no JSON": float("nan")}}]}
        with pytest.raises(InvalidEntry):
            repository.create_message("s", "a", SessionMessage.from_message(bad, len(records)))
        with pytest.raises(SessionException, match="already exists"):
            repository.create_message("s", "a", SessionMessage.from_message(bad | {"content": []}, 0))
    with SyncHost(root) as host:  # from the file
        assert TreeringSessionRepository(host).list_messages("s", "a") == records
        own = host.find_by_key("s/a")
        assert own is not None
        shown = own.messages()
        assert len(shown) == len(records)
        kinds = (ImagePart, ThinkingPart, ToolResultPart, ToolUsePart)
        assert all(any(isinstance(part, kind) for part in shown[-2].content) for kind in kinds)
        assert shown[-2].usage is not None
        assert (shown[-2].usage.input_tokens, shown[-2].usage.cache_read_tokens) == (30, 20)
        assert shown[1].role == "user"
        assert plain_text(shown[1].content) == "gone"


async def test_others_take_part_and_a_branch_brings_the_agent_back(root: str) -> None:
    with SyncHost(root) as host:
        repository = TreeringSessionRepository(host)
        first = agent(repository, Script("Hello."))
        first.state.set("step", 1)
        await first.invoke_async("Hi")
        own = host.find_by_key("support-42/helper")
        assert own is not None
        fork = own.leaf_id
        own.append(Message("user", (text("Said in the viewer"),)))
        own.append(Message("system", (text("Not a message of theirs"),)))
        assert texts([each.to_message() for each in repository.list_messages("support-42", "helper", offset=1)]) == [
            "Hello.",
            "Said in the viewer",
        ]
        second = agent(repository, Script("Aha."))
        assert texts(second.messages) == ["Hi", "Hello.", "Said in the viewer"]
        second.state.set("step", 2)
        await second.invoke_async("Well?")
        assert [each.message_id for each in repository.list_messages("support-42", "helper")] == [0, 1, 2, 3, 4]

        manager = RepositorySessionManager("support-42", repository)
        again = Agent(model=Script(), agent_id="helper", session_manager=manager)
        redacted: Any = {"role": "assistant", "content": [{"text": "[gone]"}]}
        manager.redact_latest_message(redacted, again)
        assert plain_text(own.messages()[-1].content) == "[gone]"
        latest = repository.read_message("support-42", "helper", 4)
        assert latest is not None
        assert texts([latest.to_message()]) == ["[gone]"]

        assert fork is not None
        own.branch(fork)  # before others took part
        third = agent(repository, Script("Go on."))
        assert (texts(third.messages), third.state.get("step")) == (["Hi", "Hello."], 1)
        await third.invoke_async("Then?")
        assert texts(agent(repository, Script()).messages) == ["Hi", "Hello.", "Then?", "Go on."]
        assert len(own.children(fork)) == 2


async def test_the_program_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = samples_of(PROJECT / "docs" / "frameworks.md")
    (sample,) = (each for each in page if "adapters.strands" in each.code)
    assert sample.code.count("\n") <= 30
    monkeypatch.chdir(tmp_path)
    await run(sample.compiled(), {name: getattr(treering, name) for name in treering.__all__})


class Gate(WrappedDisk):
    """A disk that notes which threads use it, and whose writes to logs wait or fail when they are told to."""

    def __init__(self) -> None:
        super().__init__(OsDisk())
        self.threads: set[int] = set()
        self.writes = 0
        self.is_open = threading.Event()
        self.is_open.set()
        self.delay_s = 0.0
        self.broken = False

    def on_call(self, call: str, *paths: str) -> None:
        self.threads.add(threading.get_ident())
        if call == "write" and paths[0].endswith(".jsonl"):
            self.writes += 1
            self.is_open.wait()
            time.sleep(self.delay_s)
            if self.broken:
                raise OSError(28, os.strerror(28))


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A disk that lets go of everybody when the test ends."""
    made = Gate()
    yield made
    made.is_open.set()


def said(number: int) -> SessionMessage:
    """Return a message."""
    return SessionMessage.from_message({"role": "user", "content": [{"text": f"word {number}"}]}, number)


@pytest.mark.feature("A-22")
async def test_no_work_of_the_disk_is_done_on_the_loops_thread(root: str, gate: Gate) -> None:
    with SyncHost(root, disk=gate) as host:
        talking = agent(TreeringSessionRepository(host, wait_max_s=60), Script({"number": "Z9"}, "In Lisbon."))
        gate.threads.clear()
        gate.writes = 0
        await talking.invoke_async("Where is Z9?")
        assert gate.writes >= 4  # four messages, and what changed of the agent
        assert threading.get_ident() not in gate.threads


@pytest.mark.feature("A-22")
async def test_a_loop_goes_on_while_a_write_is_held_up_and_nothing_is_lost(root: str, gate: Gate) -> None:
    with SyncHost(root, disk=gate, writes="thread") as host:
        repository = TreeringSessionRepository(host, wait_max_s=0.001)
        talking = agent(repository, Script(*(f"answer {number}" for number in range(5))))
        await asyncio.to_thread(repository.list_messages, "support-42", "helper")  # what was written before is
        gate.is_open.clear()
        gate.writes = 0
        for number in range(5):  # it would never come to an end if it waited for the disk
            await talking.invoke_async(f"question {number}")
        assert gate.writes <= 1  # the first of them is under way, and the others wait for it
        other = TreeringSessionRepository(host)  # which waits its turn, too
        reading = asyncio.get_running_loop().run_in_executor(None, other.list_messages, "support-42", "helper")
        gate.is_open.set()
        found = await reading
        assert texts([each.to_message() for each in found]) == texts(talking.messages)
        assert len(found) == 10
        assert [each.message_id for each in found] == list(range(10))


async def test_a_write_that_fails_late_is_raised_by_the_next_call(root: str, gate: Gate) -> None:
    events: list[str] = []

    class Noted:
        """Keeps the names of events."""

        def debug(self, event: str, /, **fields: object) -> None: ...

        info = warning = debug

        def error(self, event: str, /, **fields: object) -> None:
            events.append(event)

    with logging_to(Noted()), SyncHost(root, disk=gate, writes="thread") as host:
        repository = TreeringSessionRepository(host, wait_max_s=0.001)
        repository.create_session(Session("s", SessionType.AGENT))
        repository.create_agent("s", SessionAgent("a", {}, {}))
        await asyncio.to_thread(repository.create_message, "s", "a", said(0))  # a thread without a loop waits
        gate.is_open.clear()
        gate.broken = True
        repository.create_message("s", "a", said(1))
        gate.is_open.set()
        with pytest.raises(AppendFailed):
            await asyncio.to_thread(repository.list_messages, "s", "a")
        assert events.count("late_write_failed") == 1
        gate.broken = False
        repository.create_message("s", "a", said(1))
        assert [each.message_id for each in repository.list_messages("s", "a")] == [0, 1]


@pytest.mark.interop
@pytest.mark.feature("A-22")
async def test_a_loop_is_not_held_up_for_50_ms_by_a_disk_that_takes_longer(root: str, gate: Gate) -> None:
    taken: list[float] = []

    class Timed(TreeringSessionRepository):
        """Notes how long the framework waits for writes."""

        def create_message(self, *arguments: Any, **more: Any) -> None:  # noqa: ANN401
            begun = time.perf_counter()
            super().create_message(*arguments, **more)
            taken.append(time.perf_counter() - begun)

        def update_agent(self, *arguments: Any, **more: Any) -> None:  # noqa: ANN401
            begun = time.perf_counter()
            super().update_agent(*arguments, **more)
            taken.append(time.perf_counter() - begun)

    with SyncHost(root, disk=gate, writes="thread") as host:
        talking = agent(Timed(host), Script(*(f"answer {number}" for number in range(20))))
        gate.delay_s = 0.5
        for number in range(20):
            await talking.invoke_async(f"question {number}")
        gate.delay_s = 0.0
        assert len(await asyncio.to_thread(Timed(host).list_messages, "support-42", "helper")) == 40
        assert len(taken) >= 40
        assert sorted(taken)[len(taken) // 2] < 0.05
        assert max(taken) < 0.25  # 50 ms, with slack for a machine that others use, too


async def test_the_loop_of_a_host_cannot_wait_for_itself(root: str) -> None:
    async with SessionHost(root) as host:
        with pytest.raises(WrongThread):
            TreeringSessionRepository(host).read_session("s")
        repository = TreeringSessionRepository(host)
        await asyncio.to_thread(repository.create_session, Session("s", SessionType.AGENT))
        assert await asyncio.to_thread(repository.read_session, "s") is not None
