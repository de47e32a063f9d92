"""Data about a session as a whole: metadata, title, provider, statistics."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from treering import EntryNotFound, InvalidInput, Message, Session, SessionHost, Usage, image, text, tool_use
from treering.actors.host.runtime import Clock
from treering.entries import Provider
from treering.events.projects import project_hash
from treering.projections.stats import SessionStats
from treering.projections.tokens import ByteEstimator, message_tokens
from treering.testing.disks import RecordingDisk

from .sessions import create_session

FAMILY = "👩\u200d👩\u200d👧"
DIALECTS: Sequence[Literal["native", "pi", "omp"]] = ("native", "pi", "omp")


def lines_of(session: Session) -> list[bytes]:
    assert session.file_path is not None
    return Path(session.file_path).read_bytes().splitlines()


def text_of(path: Path) -> str:
    return path.read_text()


@pytest.fixture
async def session(root: Path, clock: Clock) -> AsyncIterator[Session]:
    async with SessionHost(root, clock=clock) as host:
        yield await create_session(host, "s", cwd="/work")


@pytest.mark.feature("N-22", "N-48")
async def test_metadata_is_read_only(session: Session) -> None:
    await session.update_metadata(metadata={"tags": ["a"]})
    before = lines_of(session)
    metadata = session.metadata
    assert (session.id, metadata.id, metadata.version, metadata.cwd) == ("s", "s", 1, "/work")
    assert metadata.created == session.created < metadata.last_message
    extra = metadata.metadata
    assert extra == {"tags": ["a"]}
    extra["tags"].append("b")  # type: ignore[union-attr]  # it is a list
    extra["more"] = 1
    with pytest.raises(AttributeError):
        metadata.title = "another"  # type: ignore[misc]  # this is refused
    with pytest.raises(AttributeError):
        session.metadata = metadata  # type: ignore[misc]  # this is refused
    assert session.metadata.metadata == {"tags": ["a"]}
    await session.passivate()
    assert session.metadata.metadata == {"tags": ["a"]}
    assert lines_of(session) == before


@pytest.mark.feature("N-51")
async def test_a_change_of_metadata_appends_one_entry_and_keeps_the_fields_not_given(session: Session) -> None:
    before = lines_of(session)
    ids = [
        await session.update_metadata(name="A title", description="About", metadata={"a": 1, "b": {"c": None}}),
        await session.update_metadata(metadata={"a": None, "d": 4}),
        await session.update_metadata(provider=Provider("ollama", "qwen3:8b", 8192)),
        await session.update_metadata(description=""),
    ]
    after = lines_of(session)
    assert after[: len(before)] == before
    assert [json.loads(line)["type"] for line in after[len(before) :]] == ["session_info"] * 4
    assert [json.loads(line)["id"] for line in after[len(before) :]] == ids
    for _ in range(2):
        metadata = session.metadata
        assert (metadata.title, metadata.description) == ("A title", "Hello")
        assert metadata.metadata == {"b": {"c": None}, "d": 4}
        assert metadata.provider == Provider("ollama", "qwen3:8b", 8192)
        await session.passivate()
    with pytest.raises(InvalidInput):
        await session.update_metadata()
    with pytest.raises(InvalidInput):
        await session.update_metadata(metadata={"a": object()})
    assert lines_of(session) == after


@pytest.mark.feature("N-51")
@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})], ids=["asyncio"])
async def test_a_crash_leaves_the_old_or_the_new_metadata(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    disk = RecordingDisk()
    async with SessionHost("/sessions", disk=disk, durability="file") as host:
        session = await host.create("s")
        await session.update_metadata(name="old", metadata={"a": 1})
        start = len(disk.operations)
        await session.update_metadata(name="new", metadata={"a": 2})
        end = len(disk.operations)
    seen: set[tuple[str | None, str]] = set()
    for left in disk.crash_states(since=start, until=end):
        async with SessionHost("/sessions", disk=left) as host:
            metadata = (await host.load("s")).metadata
            seen.add((metadata.title, str(metadata.metadata)))
    assert seen == {("old", "{'a': 1}"), ("new", "{'a': 2}")}


@pytest.mark.feature("N-51")
async def test_metadata_changes_of_concurrent_tasks_are_all_kept(session: Session) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(lambda key: session.update_metadata(metadata={key: True}), f"key{number}")
            tasks.start_soon(session.append_message, "user", str(number))
    assert session.metadata.metadata == {f"key{number}": True for number in range(20)}


@pytest.mark.feature("N-25", "N-145", "N-164", "U-19")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_title_is_the_beginning_of_the_first_message_until_one_is_set(
    root: Path, clock: Clock, dialect: Literal["native", "pi", "omp"]
) -> None:
    async with SessionHost(root, clock=clock, dialect=dialect) as host:
        session = await host.create("s")

        async def title() -> str | None:
            row = await host.get_session("s")
            assert row is not None
            assert row.title == session.metadata.title
            return row.title

        await session.append_message("assistant", "Good day")
        assert await title() is None
        await session.append_message("user", [image("aGk=", "image/png")])
        assert await title() is None
        long = "Fix\n the  " + "x" * 59 + "e\u0301" + FAMILY + " and much more of it" + "y" * 300
        await session.append_message("user", long)
        before = len(lines_of(session))
        shown = await title()
        assert shown is not None
        assert shown == "Fix the " + "x" * 59 + "e\u0301" + FAMILY + " and…"
        assert len(shown) <= 80
        described = session.metadata.description
        assert described is not None
        assert described.startswith("Fix the xxx")
        assert (len(described), described[-1]) == (200, "…")
        await session.append_message("user", "Something else")
        assert await title() == shown
        assert len(lines_of(session)) == before + 1  # a derived title is not an entry

        await session.append_session_info("Mine")
        assert await title() == "Mine"
        for content in ("later", "words"):
            await session.append_message("user", content)
            await session.append_message("assistant", content)
        await session.passivate()
        assert await title() == "Mine"
    (root / ".treering" / "index.jsonl").unlink()
    async with SessionHost(root) as host:
        assert [row.title for row in await host.list_sessions()] == ["Mine"]
        assert [row.first_message[:7] for row in await host.list_sessions()] == ["Fix the"]


@pytest.mark.feature("N-145")
@pytest.mark.parametrize("cut", range(190, 201))
async def test_a_shortened_description_splits_no_grapheme(cut: int) -> None:
    async with SessionHost() as host:
        session = await host.create("s")
        await session.append_message("user", "x" * cut + FAMILY + "e\u0301" * 20)
        description = session.metadata.description
        assert description is not None
        assert len(description) <= 200
        assert description.endswith("…")
        rest = description.removesuffix("…").lstrip("x")
        assert rest == "" or rest.startswith(FAMILY)
        assert not rest.removeprefix(FAMILY).replace("e\u0301", "")


@pytest.mark.feature("N-27", "N-28")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "provider",
    [
        Provider("ollama", "qwen3:8b", 32_768, "http://localhost:11434"),
        Provider("openai-compatible", "m", 4096),
        Provider("another-provider", "m-2", 1_000_000),
    ],
    ids=lambda each: each.type,
)
async def test_the_provider_is_stored_and_its_window_determines_the_budget(
    root: Path, dialect: Literal["native", "pi", "omp"], provider: Provider
) -> None:
    async with SessionHost(root, dialect=dialect) as host:
        session = await host.create("s")
        await session.append_message("user", "Hello")
        with pytest.raises(InvalidInput, match="names no context window"):
            session.budget()
        await session.update_metadata(provider=provider)
    async with SessionHost(root) as host:
        session = await host.load("s")
        assert session.metadata.provider == provider
        budget = session.budget("system " * 10, "tools", reserve_for_response=100)
        assert budget.model_context_window == provider.context_window
        assert budget.available_tokens == provider.context_window - 18 - 2 - 100
        assert (await session.build_context(budget)).strategy == "full-history"


async def test_a_provider_without_a_type_or_with_a_negative_window_is_refused(session: Session) -> None:
    before = lines_of(session)
    for wrong in (Provider(""), Provider("ollama", context_window=-1)):
        with pytest.raises(InvalidInput):
            await session.update_metadata(provider=wrong)
    assert lines_of(session) == before


@pytest.mark.feature("N-26", "N-52", "N-53", "N-54", "N-55", "N-144")
async def test_the_statistics_equal_those_counted_from_the_file(session: Session, root: Path) -> None:
    await session.append_message("assistant", [text("I look."), tool_use("c1", "read", {"path": "a"})])
    await session.append_tool_execution("c1", "read", {"path": "a"}, "text of a", duration_ms=3.5, tokens=3)
    branch = await session.append_message("assistant", tool_use("c2", "run", {"line": "ls"}))
    await session.append_tool_execution("c2", "run", {"line": "ls"}, "no", is_error=True, exit_code=1)
    await session.save_turn([Message("user", (text("and?"),)), Message("assistant", (text("so"),))], Usage(1, 2))
    await session.branch(branch)
    await session.append_message("user", "elsewhere")
    await session.append_message("system", "rules")
    await session.append_custom_message("mine", "shown to the model, but not a message of the conversation")

    for _ in range(2):
        lines: list[dict[str, Any]] = [json.loads(line) for line in lines_of(session)[1:]]
        roles = [line["message"]["role"] for line in lines if line["type"] == "message"]
        stored = await session.all_messages()
        assert [message.role for message in stored] == roles
        tokens = [message_tokens(message) for message in stored]
        stats = await session.stats()
        assert stats == SessionStats(
            message_count=len(roles),
            tool_execution_count=sum(line["type"] == "tool_execution" for line in lines),
            total_tokens=sum(tokens),
            user_message_count=roles.count("user"),
            assistant_message_count=roles.count("assistant"),
        )
        assert (stats.message_count, stats.tool_execution_count) == (9, 2)
        assert await session.total_tokens() == stats.total_tokens > 0
        assert await session.stats(tokenizer=ByteEstimator()) == stats
        assert session.message_count == stats.message_count  # the index has it without reading the file
        assert [each.tool_execution.tool_call_id for each in await session.tool_executions()] == ["c1", "c2"]
        assert [each.tool_execution.arguments for each in await session.tool_executions()] == [
            {"path": "a"},
            {"line": "ls"},
        ]
        stored[0].metadata["changed"] = True
        stored.clear()
        assert len(await session.all_messages()) == 9
        await session.passivate()
    await session.append_message("user", "one more")
    assert (await session.stats()).message_count == 10  # counted from the saved state


@pytest.mark.feature("N-23", "N-40")
async def test_a_projects_session_has_file_and_row(root: Path, index_path: Path, tmp_path: Path, clock: Clock) -> None:
    async with SessionHost(root, clock=clock) as host:
        session = await host.create(cwd=tmp_path)
        await session.update_metadata(provider=Provider("ollama", "qwen3:8b", 8192))
        await host.flush()
        assert session.file_path == str(root / f"{session.id}.jsonl")
        assert len(lines_of(session)) == 2
        _, line = text_of(index_path).splitlines()
        row = json.loads(line)["session"]
        assert (row["id"], row["project"], row["project_hash"]) == (session.id, str(tmp_path), project_hash(tmp_path))
        assert session.metadata.project == row["project"]
        assert (await host.list_sessions(project=tmp_path))[0].project_hash == row["project_hash"]


@pytest.mark.feature("N-50")
async def test_a_tool_execution_is_linked_to_the_call_and_its_message(session: Session) -> None:
    asking = await session.append_message("assistant", tool_use("c1", "read", {"path": "a"}))
    result, record = await session.append_tool_execution(
        "c1", "read", {"path": "a"}, "text of a", duration_ms=3.5, tokens=3, message_id=asking
    )
    (run,) = await session.tool_executions()
    assert (run.id, run.parent_id) == (record, result)
    execution = run.tool_execution
    assert (execution.tool_call_id, execution.message_id) == ("c1", asking)
    assert (execution.tool_name, execution.arguments) == ("read", {"path": "a"})
    assert (execution.success, execution.duration_ms, execution.tokens) == (True, 3.5, 3)
    assert len(lines_of(session)) == 5


@pytest.mark.feature("N-49")
async def test_a_stored_message_has_its_id_seq_parent_time_and_tokens(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        session = await host.create()
        question = await session.append_message("user", "How many tokens is this?")
        answer = await session.append_message("assistant", "Six or so.", model="m")
        stored = await session.stored_message(answer)
        assert (stored.id, stored.seq, stored.parent_id) == (answer, 2, question)
        assert (stored.message.role, stored.message.model) == ("assistant", "m")
        assert stored.timestamp.tzinfo is not None
        assert stored.tokens == message_tokens(stored.message) > 0
        label = await session.set_label(answer, "done")
        with pytest.raises(InvalidInput, match="is a label"):
            await session.stored_message(label)
        with pytest.raises(EntryNotFound):
            await session.stored_message("nobody")
