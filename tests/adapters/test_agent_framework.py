"""Histories and checkpoints of Microsoft's Agent Framework: real agents and workflows, and what is written for them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import anyio
import anyio.lowlevel
import pytest

pytest.importorskip("agent_framework", reason="Microsoft's Agent Framework is not installed: `make interop` does it")

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    Executor,
    FileHistoryProvider,
    FunctionInvocationLayer,
    Message,
    WorkflowBuilder,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
    WorkflowContext,
    handler,
    tool,
)

from treering import Limits, MemoryStore, Session, SessionHost, plain_text, text, tool_use
from treering import Message as OwnMessage
from treering.adapters.agent_framework import TreeringCheckpointStorage, TreeringHistoryProvider
from treering.entries import Entry, ToolResultPart, ToolUsePart, message, tool_result
from treering.errors import InvalidEntry
from treering.stores import Ref

pytestmark = pytest.mark.filterwarnings("ignore:.*is experimental")  # the framework's, of its own classes


@pytest.fixture
def anyio_backend() -> str:
    """The framework knows no other loop."""
    return "asyncio"


def texts(messages: Sequence[Message]) -> list[str]:
    """Return what messages say."""
    return [each.text for each in messages]


class Script(FunctionInvocationLayer, BaseChatClient):
    """A model that answers what it is told to, and keeps what it is asked."""

    def __init__(self, *answers: Content | str) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    async def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: object
    ) -> ChatResponse:
        self.asked.append([f"{each.role}: {each.text}" for each in messages if each.text])
        return ChatResponse(messages=[Message("assistant", [self.answers.pop(0)])])


@pytest.mark.feature("A-19")
@pytest.mark.parametrize("shared", [True, False], ids=["root", "host"])
async def test_an_agent_remembers_with_its_tools(root: str, shared: bool) -> None:
    @tool(approval_mode="never_require")
    def track(number: str) -> str:
        """Say where a parcel is."""
        return f"{number} is in Lisbon"

    async with SessionHost(root + "-own") as host:
        where: Any = root if shared else host
        call = Content.from_function_call("c1", "track", arguments='{"number": "Z9"}')
        for words, answers in (("Where is Z9?", [call, "In Lisbon."]), ("And Z8?", ["Lost."])):
            client = Script(*answers)  # a process of its own, as it were
            agent = Agent(client=client, tools=[track], context_providers=[TreeringHistoryProvider(where)])
            await agent.run(words, session=agent.create_session(session_id="support-42"))
            assert client.answers == []
        assert client.asked == [["user: Where is Z9?", "assistant: In Lisbon.", "user: And Z8?"]]
        found = await TreeringHistoryProvider(where).get_messages("support-42")
        assert [each.role for each in found] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
        assert await TreeringHistoryProvider(where).get_messages("another") == []
        if not shared:
            own = await host.get_or_create("support-42")
            parts = [part for each in await own.messages() for part in each.content]
            (called,) = (part.tool_use for part in parts if isinstance(part, ToolUsePart))
            (result,) = (part.tool_result for part in parts if isinstance(part, ToolResultPart))
            assert (called.name, called.input, called.id) == ("track", {"number": "Z9"}, result.tool_use_id)
            assert [hit.session_id async for hit in host.search("Lost")] == [own.id]


@pytest.mark.feature("A-19")
async def test_sending_all_again_reads_nothing_and_writes_the_new(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    iterate = Session.iter_entries

    async def counted(self: Session, after: int = 0, **options: Any) -> AsyncGenerator[Entry]:  # noqa: ANN401
        async for entry in iterate(self, after, **options):
            decoded.append(entry.id or "")
            yield entry

    async def never(self: Session) -> object:
        raise AssertionError("the whole context was read")

    monkeypatch.setattr(Session, "iter_entries", counted)
    async with SessionHost(root) as host:
        provider = TreeringHistoryProvider(host)
        history = [Message("assistant" if at % 2 else "user", [f"{at} " + "x" * 200]) for at in range(2000)]
        await provider.save_messages("s", history)
        own = await host.get_or_create("s")
        monkeypatch.setattr(Session, "context", never)
        file = anyio.Path(own.file_path or "")
        size = (await file.stat()).st_size
        for at in range(2000, 2010):
            decoded.clear()
            history.append(Message("assistant" if at % 2 else "user", [f"{at}"]))
            await provider.save_messages("s", history)
            assert decoded == []  # it knows what it wrote itself
        assert own.message_count == 2010
        assert (await file.stat()).st_size - size < 10 * 400
        await provider.save_messages("s", history)
        assert own.message_count == 2010


@pytest.mark.feature("A-19")
@pytest.mark.parametrize("seed", range(8))
async def test_what_is_new_is_told_as_the_frameworks_provider_tells_it(root: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    theirs = FileHistoryProvider(tmp_path / "theirs")
    async with SessionHost(root) as host:
        ours, sent = TreeringHistoryProvider(host), list[Message]()
        for _ in range(30):
            if chance.random() < 0.2:  # as another process would
                ours = TreeringHistoryProvider(host)
            fresh = [
                Message(
                    chance.choice(["user", "assistant"]),
                    [chance.choice("ab")],
                    message_id=chance.choice([None, None, str(len(sent) + at)]),
                )
                for at in range(chance.randint(1, 3))
            ]
            batch = chance.choice(
                [fresh, [*sent, *fresh], [*sent[-2:], *fresh], sent, [Message("system", ["s"]), *sent]]
            )
            await theirs.save_messages("s", batch)
            await ours.save_messages("s", batch)
            sent = await theirs.get_messages("s")
            assert [each.to_dict() for each in await ours.get_messages("s")] == [each.to_dict() for each in sent]


async def test_every_kind_of_content_comes_back_equal(root: str) -> None:
    contents = [  # one of each kind
        Content.from_text("words", annotations=[{"type": "citation", "title": "t"}]),
        Content.from_text(""),
        Content.from_text_reasoning(text="hm", protected_data="sealed"),
        Content.from_function_call("c1", "f", arguments='{ "a" : 1.0}'),
        Content.from_function_call("c1", "f", arguments={"a": 1.0}),
        Content.from_function_call("c1", "f", arguments="no JSON"),
        Content.from_function_result("c1", result="done"),
        Content.from_function_result("c1", result={"a": [1.0, True, None]}),
        Content.from_function_result("c1", result="no", exception="what happened"),
        Content.from_data(b"\xff\xfb\xf0", "image/png"),
        Content.from_data(b"\xff\xfb\xf0", "audio/wav"),
        Content.from_uri("https://here/cat.png", media_type="image/png"),
        Content.from_uri("https://here/plan.pdf", media_type="application/pdf"),
        Content.from_error(message="bad", error_code="E1"),
        Content.from_usage({"input_token_count": 30, "cache_read_input_token_count": 10, "output_token_count": 4}),
        Content.from_hosted_file("file-1"),
        Content.from_code_interpreter_tool_call(call_id="c2", inputs=[Content.from_text("print(1)")]),
        Content.from_shell_tool_call(call_id="c3", commands=["ls"]),
    ]
    whole = Message(
        "assistant", contents, author_name="helper", message_id="m1", additional_properties={"a": [1, None]}
    )
    async with SessionHost(root) as host:
        provider = TreeringHistoryProvider(host)
        for each in contents:
            await provider.save_messages("kinds", [Message("assistant", [each])])
        await provider.save_messages("kinds", [whole])
        found = await provider.get_messages("kinds")
        expected = [*(Message("assistant", [each]) for each in contents), whole]
        assert [each.to_dict() for each in found] == [each.to_dict() for each in expected]
        own = await host.get_or_create("kinds")
        last = (await own.messages())[-1]
        assert last.usage is not None
        assert (last.usage.input_tokens, last.usage.cache_read_tokens, last.usage.output_tokens) == (20, 10, 4)
        assert {part.type for part in last.content} == {"text", "thinking", "tool_use", "tool_result", "image"}
        bad = Content.from_function_call("c", "f", arguments={"no JSON": float("nan")})
        with pytest.raises(InvalidEntry):
            await provider.save_messages("kinds", [Message("user", ["a"]), Message("assistant", [bad])])
        assert len(await provider.get_messages("kinds")) == len(expected)


async def test_messages_of_others_and_what_the_context_shows_of_them(root: str) -> None:
    async with SessionHost(root) as host:
        own = await host.get_or_create("s")
        first = await own.append_message("user", "Hi")
        await own.append(OwnMessage("assistant", (text("Let me look."), tool_use("c", "look", {"at": 1}))))
        provider = TreeringHistoryProvider(host)
        found = await provider.get_messages("s")
        assert [(each.role, each.contents[0].text) for each in found] == [("user", "Hi"), ("assistant", "Let me look.")]
        assert found[1].contents[1].arguments == '{"at":1}'
        await provider.save_messages("s", [*found, Message("user", ["Go on"])])
        assert [plain_text(each.content) for each in await own.messages()] == ["Hi", "Let me look.", "Go on"]
        await own.append(OwnMessage("tool", (tool_result("c", "A cat."),)))
        await own.append_compaction("They said hi.", first, 10)
        await own.append_context_edit(first, "Hello")
        found = await provider.get_messages("s")
        await provider.save_messages("s", [*found, Message("assistant", ["Gone."])])
        assert texts(await provider.get_messages("s"))[-1] == "Gone."
        assert own.message_count == 5
        await own.branch(first)  # back to where only this was said
        assert texts(await provider.get_messages("s")) == ["Hi"]
        excluded = Message("assistant", ["left out"], additional_properties={"_excluded": True})
        await provider.save_messages("s", [excluded])
        assert texts(await TreeringHistoryProvider(host, skip_excluded=True).get_messages("s")) == ["Hi"]
        assert texts(await provider.get_messages("s")) == ["Hi", "left out"]


async def test_a_session_that_another_program_deleted_or_made_anew_is_another_one(root: str) -> None:
    async with SessionHost(root) as host:
        provider = TreeringHistoryProvider(host)
        one = [Message("user", ["one"]), Message("assistant", ["two"])]
        await provider.save_messages("s", one)
        await host.delete(await host.get_or_create("s"))
        assert await provider.get_messages("s") == []
        await provider.save_messages("s", one)
        await provider.save_messages("s", one)  # by which it knows what it wrote
        async with SessionHost() as other:
            own = await other.get_or_create("s")
            await own.append_many([message("user", "one"), message("assistant", "two")])
            await host.put(own, replace=True)
        await provider.save_messages("s", [*one, Message("user", ["three"])])
        assert texts(await provider.get_messages("s")) == ["one", "two", "three"]


@dataclass
class Parcel:
    """What a workflow works on; checkpoints hold it only if it is allowed."""

    number: str
    seen: list[str]


ALLOWED = [f"{Parcel.__module__}:{Parcel.__qualname__}"]


class Step(Executor):
    """A step that fails as often as it is told to."""

    failures: ClassVar[list[str]] = []

    @handler
    async def work(self, parcel: Parcel, ctx: WorkflowContext[Parcel, Parcel]) -> None:
        """Note where the parcel was, and pass it on."""
        if self.id in self.failures:
            self.failures.remove(self.id)
            raise RuntimeError(self.id)
        moved = Parcel(parcel.number, [*parcel.seen, self.id])
        ctx.set_state(f"at {self.id}", len(moved.seen))
        await (ctx.yield_output(moved) if self.id == "c" else ctx.send_message(moved))


def workflow(storage: TreeringCheckpointStorage) -> Any:  # noqa: ANN401  # of the framework
    """Return a workflow of three steps."""
    a, b, c = (Step(id=each) for each in "abc")
    builder = WorkflowBuilder(name="a parcel/moves", start_executor=a, checkpoint_storage=storage, output_from=[c])
    return builder.add_edge(a, b).add_edge(b, c).build()


NAME = "a parcel/moves"


@pytest.mark.feature("A-20")
@pytest.mark.parametrize("shared", [True, False], ids=["root", "host"])
async def test_a_workflow_goes_on_from_its_checkpoints(root: str, shared: bool) -> None:
    async with SessionHost(root + "-own") as host:

        def storage() -> TreeringCheckpointStorage:
            return TreeringCheckpointStorage(root if shared else host, allowed_checkpoint_types=ALLOWED)

        Step.failures[:] = ["c"]
        with pytest.raises(RuntimeError, match="c"):
            await workflow(storage()).run(Parcel("Z9", []))
        latest = await storage().get_latest(workflow_name=NAME)
        assert latest is not None
        assert latest.state["at b"] == 2
        result = await workflow(storage()).run(checkpoint_id=latest.checkpoint_id)
        assert result.get_outputs() == [Parcel("Z9", ["a", "b", "c"])]
        stored = await storage().list_checkpoints(workflow_name=NAME)
        assert [each.checkpoint_id for each in stored] == await storage().list_checkpoint_ids(workflow_name=NAME)
        before = {each.checkpoint_id: each.previous_checkpoint_id for each in stored}
        first = next(each for each in stored if each.previous_checkpoint_id is None)
        again = await workflow(storage()).run(checkpoint_id=first.checkpoint_id)  # from the very beginning
        assert again.get_outputs() == result.get_outputs()
        if not shared:
            own = await host.get_or_create("workflow:a%20parcel%2Fmoves")
            entries = {entry.custom.data["checkpoint_id"]: entry for entry in await own.entries()}  # type: ignore[union-attr,index,call-overload]  # all are checkpoints
            for checkpoint_id, previous in before.items():
                above = entries[previous].id if previous in entries else None
                assert entries[checkpoint_id].parent_id == above
            assert len(own.children(entries[first.checkpoint_id].id)) == 2  # the second run made a branch


@pytest.mark.feature("A-20")
async def test_checkpoints_are_stored_listed_loaded_and_deleted(root: str) -> None:
    def made(name: str, at: int, **more: Any) -> WorkflowCheckpoint:  # noqa: ANN401
        time = datetime.fromtimestamp(at, UTC).isoformat()
        return WorkflowCheckpoint(workflow_name=name, graph_signature_hash="g", timestamp=time, **more)

    async with SessionHost(root) as host:
        storage = TreeringCheckpointStorage(host)
        assert await storage.get_latest(workflow_name="one") is None
        assert await storage.list_checkpoints(workflow_name="one") == []
        state = {"when": datetime(2026, 1, 2, tzinfo=UTC), "set": {1, 2}, "deep": {"1": [None, 1.5, ("a",)]}}
        late = made("one", 30, state=state, iteration_count=3, metadata={"superstep": 1})
        early = made("one", 20, previous_checkpoint_id=late.checkpoint_id)
        other = made("two", 40)
        for each in (late, early, other):
            assert await storage.save(each) == each.checkpoint_id
    async with SessionHost(root) as host:
        storage = TreeringCheckpointStorage(host)
        assert await storage.load(late.checkpoint_id) == late
        assert await storage.list_checkpoints(workflow_name="one") == [late, early]
        assert await storage.list_checkpoint_ids(workflow_name="two") == [other.checkpoint_id]
        assert await storage.get_latest(workflow_name="one") == late
        replaced = made("one", 50, checkpoint_id=early.checkpoint_id)
        await storage.save(replaced)
        assert await storage.get_latest(workflow_name="one") == replaced
        assert await storage.list_checkpoint_ids(workflow_name="one") == [late.checkpoint_id, early.checkpoint_id]
        assert await storage.delete(early.checkpoint_id) is True
        assert await storage.delete(early.checkpoint_id) is False
        assert await storage.get_latest(workflow_name="one") == late
        await storage.save(made("one", 60, previous_checkpoint_id=early.checkpoint_id))  # below one that is deleted
    async with SessionHost(root) as host:
        storage = TreeringCheckpointStorage(host)
        assert len(await storage.list_checkpoint_ids(workflow_name="one")) == 2
        for missing in (early.checkpoint_id, "../other"):
            with pytest.raises(WorkflowCheckpointException, match="no checkpoint"):
                await storage.load(missing)
            assert await storage.delete(missing) is False


@pytest.mark.feature("A-20")
@pytest.mark.parametrize("value", [Parcel("Z9", []), lambda: 1], ids=["a type that is not allowed", "no value"])
async def test_what_could_not_be_read_back_is_not_stored(root: str, value: Callable[[], int] | Parcel) -> None:
    async with SessionHost(root) as host:
        storage = TreeringCheckpointStorage(host)
        with pytest.raises(WorkflowCheckpointException):
            await storage.save(WorkflowCheckpoint(workflow_name="w", graph_signature_hash="g", state={"value": value}))
        assert await host.list_sessions() == []


async def test_checkpoints_that_are_deleted_while_they_are_listed_are_in_the_list_as_they_were() -> None:
    class Elsewhere(MemoryStore):
        async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
            await anyio.lowlevel.checkpoint()  # as if the log were on another machine
            return await super().bodies(ref, generation, seqs)

    async with SessionHost(store=Elsewhere(), limits=Limits(cache_bytes_max=0)) as host:
        storage = TreeringCheckpointStorage(host)
        made = [WorkflowCheckpoint(workflow_name="w", graph_signature_hash="g") for _ in range(3)]
        ids = [await storage.save(each) for each in made]
        listed, *_ = await asyncio.gather(storage.list_checkpoints(workflow_name="w"), *map(storage.delete, ids))
        assert listed == made
        assert await storage.list_checkpoints(workflow_name="w") == []
