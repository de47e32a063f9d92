"""An export for a program whose messages have no ids is imported into the session that it came from."""

import json
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import pytest

from treering import MessageEntry, Session, SessionHost, plain_text, text, tool_result, tool_use

pytestmark = pytest.mark.parametrize("anyio_backend", [("asyncio", {})], ids=["asyncio"])

Format: TypeAlias = Literal["picoclaw", "dive", "nanocoder"]
FORMATS = get_args(Format)
KEY = "telegram:42"


async def create_conversation(host: SessionHost, *, key: bool = False, session_id: str | None = None) -> Session:
    """Create a session with repeated texts, parallel calls, and entries besides messages."""
    session = await host.get_or_create(KEY) if key else await host.create(session_id, cwd="/work/orchard")
    await session.append_model_change("openai", "gpt-oak")
    await session.append_session_info(name="The orchard")
    await session.append_message("user", "Go on.")
    await session.append_message("assistant", "I look.")
    await session.append_message("user", "Go on.")
    calls = [tool_use("c1", "ls", {"path": "."}), tool_use("c2", "cat", {"path": "a", "lines": [1, 2.5]})]
    await session.append_message("assistant", [text("Two at once."), *calls], model="gpt-oak")
    results = [tool_result("c1", "a b"), tool_result("c2", "words")]
    if session.header.version == 3:  # in pi, each result is a message
        for each in results:
            await session.append_message("tool", [each])
    else:
        await session.append_message("user", results)
    await session.append_message("assistant", "Done.")
    return session


async def texts(session: Session) -> list[str]:
    return [plain_text(each.content) for each in await session.history()]


async def ids(session: Session) -> list[str | None]:
    return [entry.id for entry in await session.entries()]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dialect", ["native", "pi"])
@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize("archived", [False, True])
async def test_an_own_export_adds_none(format: Format, dialect: str, key: bool, archived: bool, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "sessions", dialect="native" if dialect == "native" else "pi") as host:
        session = await create_conversation(host, key=key)
        await session.export(format, tmp_path / "out")
        before, count = await ids(session), session.message_count
        leaf = session.leaf_id
        if archived:
            await host.archive(session.id)
        for _ in range(2):
            (report,) = await host.import_sessions(tmp_path / "out")
            assert (report.id, report.added, report.existed) == (session.id, 0, True)
            assert report.messages == (6 if format == "dive" and dialect == "native" else 7)
        assert len(await host.list_sessions(status="any")) == 1
        read = await host.load(session.id, read_only=True)
        assert (await ids(read))[: len(before)] == before
        assert (read.message_count, read.leaf_id if not archived else leaf) == (count, leaf)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("compacted", [False, True])
async def test_importing_an_export_adds_nothing_to_a_session_that_was_compacted_before_or_went_on_after(
    format: Format, compacted: bool, host: SessionHost, tmp_path: Path
) -> None:
    session = await create_conversation(host)
    path = session.path()
    if compacted:
        await session.append_compaction("They look.", path[-1], 100)
        await session.append_message("user", "Go on.")
    await session.export(format, tmp_path / "out")
    if not compacted:
        await session.append_message("user", "Go on.")
        await session.branch(path[3])
        await session.append_message("user", "Something else.")
    before = await ids(session)
    (report,) = await host.import_sessions(tmp_path / "out")
    assert (report.added, await ids(session)) == (0, before)


@pytest.mark.parametrize("format", FORMATS)
async def test_importing_an_export_of_an_edited_session_adds_nothing(format: Format, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "sessions") as host:
        session = await create_conversation(host)
        asked, _, again, called, answered, done = session.path()[2:]
        await session.export(format, tmp_path / "before")
        await session.append_context_edit(asked, "Begin.")
        await session.append_context_edit(again, None)
        await session.append_context_edit(answered, None)
        await session.export(format, tmp_path / "edited")
        await session.append_context_edit(called, "Nothing called.")
        await session.append_context_edit(done, None)
        await session.export(format, tmp_path / "without")
        await session.append_message("user", "Go on.")
        before, leaf = await ids(session), session.leaf_id
        for out in ("before", "edited", "without"):
            (report,) = await host.import_sessions(tmp_path / out)
            assert (report.id, report.added) == (session.id, 0), out
        assert (await ids(session), session.leaf_id) == (before, leaf)


@pytest.mark.parametrize("format", FORMATS)
async def test_importing_an_export_with_failed_calls_and_edits_adds_nothing(format: Format, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "sessions") as host:
        session = await host.create("plan")
        await session.append_message("user", "Look.")
        called = await session.append_message("assistant", [tool_use("c1", "ls", {}), tool_use("c2", "cat", {})])
        failed = tool_result("c2", "no such file", is_error=True)
        await session.append_message("user", [tool_result("c1", "a b"), failed, text("Well?")])
        answered = await session.append_message("assistant", "Nothing there.")
        await session.export(format, tmp_path / "failed")
        await session.append_context_edit(answered, "Quite something else.")
        await session.export(format, tmp_path / "edited")
        await session.append_context_edit(called, "Looked.")
        await session.export(format, tmp_path / "without")
        for out in ("failed", "edited", "without"):
            (report,) = await host.import_sessions(tmp_path / out)
            assert (report.id, report.added) == (session.id, 0), out


@pytest.mark.parametrize("format", ["picoclaw", "dive"])
async def test_what_follows_an_edited_export_goes_below_the_session(format: Format, tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with SessionHost(tmp_path / "sessions") as host:
        session = await create_conversation(host)
        await session.append_context_edit(session.path()[-1], None)
        edit = session.leaf_id
        await session.export(format, out)
        continue_file(out, format, "Further.")
        (report,) = await host.import_sessions(out)
        assert report.added == (1 if format == "picoclaw" else 2)
        assert edit in session.path()
        assert (await texts(session))[-1] == "Further."


def continue_file(path: Path, format: Format, *messages: str) -> None:
    """Append messages to an exported file, as the other program would."""
    if format == "picoclaw":
        document = json.loads(path.read_text())
        document["messages"] += [{"role": "user", "content": each} for each in messages]
        path.write_text(json.dumps(document))
    else:
        turn = [{"role": "user", "content": [{"type": "text", "text": each}]} for each in messages]
        data = {"id": f"e-{messages[0]}", "type": "turn", "timestamp": "2030-01-01T10:00:00Z", "messages": turn}
        with path.open("a") as file:
            file.write(json.dumps({"line_type": "event", "data": data}) + "\n")


@pytest.mark.parametrize("format", ["picoclaw", "dive"])
async def test_messages_that_the_other_program_added_follow_the_session(format: Format, tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with SessionHost(tmp_path / "sessions") as host:
        session = await create_conversation(host)
        await session.set_label(session.path()[2], "begin")  # the leaf is not a message
        leaf, before = session.leaf_id, await texts(session)
        await session.export(format, out)
        continue_file(out, format, "Go on.", "And on.")
        (report,) = await host.import_sessions(out)
        assert report.added == (2 if format == "picoclaw" else 3), "a turn of dive has a usage record"
        assert await texts(session) == [*before, "Go on.", "And on."]
        assert leaf in session.path()
        (again,) = await host.import_sessions(out)
        assert again.added == 0
        mine = await session.append_message("user", "Mine.")
        continue_file(out, format, "Further.")
        (further,) = await host.import_sessions(out)
        assert further.added == (1 if format == "picoclaw" else 2)
        assert session.leaf_id == mine
        assert await texts(session) == [*before, "Go on.", "And on.", "Mine."]


@pytest.mark.parametrize("format", ["picoclaw", "dive"])
async def test_messages_added_on_both_sides_become_two_branches(format: Format, tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with SessionHost(tmp_path / "sessions") as host:
        session = await create_conversation(host)
        count = session.message_count
        forking = session.leaf_id
        await session.export(format, out)
        mine = await session.append_message("user", "Mine.")
        continue_file(out, format, "Theirs.")
        await host.import_sessions(out)
        assert (session.leaf_id, session.message_count) == (mine, count + 2)
        (theirs,) = (
            each.id for each in await session.entries() if isinstance(each, MessageEntry) and "Theirs." in str(each)
        )
        assert theirs is not None
        assert forking in session.path(theirs)


@pytest.mark.parametrize("format", ["picoclaw", "dive"])
@pytest.mark.parametrize("key", [False, True])
async def test_another_conversation_of_that_name_is_another_session(format: Format, key: bool, tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with SessionHost(tmp_path / "elsewhere") as elsewhere, SessionHost(tmp_path / "sessions") as host:
        other = await elsewhere.get_or_create(KEY) if key else await elsewhere.create("plan")
        await other.append_message("user", "Another matter.")
        await other.export(format, out)
        session = await create_conversation(host, key=key, session_id="plan")
        before = await ids(session)
        (report,) = await host.import_sessions(out)
        assert (report.existed, report.id != session.id) == (False, True)
        assert await ids(session) == before
        apart = await host.load(report.id)
        assert (await texts(apart), apart.header.key) == (["Another matter."], None)
        continue_file(out, format, "Go on.")
        (again,) = await host.import_sessions(out)
        assert (again.id, again.existed) == (report.id, True)
        assert await texts(apart) == ["Another matter.", "Go on."]


@pytest.mark.parametrize("format", ["picoclaw", "dive"])
async def test_messages_that_a_pi_session_cannot_take_become_another_session(format: Format, tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with SessionHost(tmp_path / "sessions", dialect="pi") as host:
        session = await host.create()
        await session.append_message("user", "Hello")
        await session.export(format, out)
        continue_file(out, format, "Go on.")
        (report,) = await host.import_sessions(out)
        assert (report.existed, report.id != session.id) == (False, True)
        assert session.message_count == 1
        assert await texts(await host.load(report.id)) == ["Hello", "Go on."]
        (again,) = await host.import_sessions(out)
        assert (again.id, again.added) == (report.id, 0)


@pytest.mark.parametrize("session_id", ["Plan_A", "a_b", "plan"])
async def test_an_id_that_is_not_a_plain_key_finds_its_session(session_id: str, tmp_path: Path) -> None:
    """A document of picoclaw uses the id as the key if a session has no key."""
    async with SessionHost(tmp_path / "sessions") as host:
        session = await create_conversation(host, session_id=session_id)
        await session.export("picoclaw", tmp_path / "out")
        (report,) = await host.import_sessions(tmp_path / "out")
        assert (report.id, report.added) == (session_id, 0)
        continue_file(tmp_path / "out", "picoclaw", "More.")
        (report,) = await host.import_sessions(tmp_path / "out")
        assert (report.id, report.added) == (session_id, 1)
        assert len(await host.list_sessions()) == 1


async def test_a_file_is_imported_into_a_session_without_messages(tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "elsewhere") as elsewhere, SessionHost(tmp_path / "sessions") as host:
        await (await create_conversation(elsewhere, key=True)).export("picoclaw", tmp_path / "out")
        session = await host.get_or_create(KEY)
        await session.append_session_info(name="Mine")
        (report,) = await host.import_sessions(tmp_path / "out")
        assert (report.id, report.existed) == (session.id, True)
        assert session.message_count == 7


async def test_an_imported_session_can_continue_in_both_programs(tmp_path: Path, host: SessionHost) -> None:
    """The ids of some entries derive from the file, the others were generated here."""
    source = tmp_path / "s.json"
    source.write_text(json.dumps({"key": KEY, "messages": [{"role": "user", "content": "One"}], "summary": ""}))
    (report,) = await host.import_sessions(source)
    session = await host.load(report.id)
    await session.append_message("assistant", "Two")
    await session.export("picoclaw", source, overwrite=True)
    continue_file(source, "picoclaw", "Three")
    (report,) = await host.import_sessions(source)
    assert (report.added, await texts(session)) == (1, ["One", "Two", "Three"])


async def test_the_index_of_a_nanocoder_folder_is_skipped(tmp_path: Path, host: SessionHost) -> None:
    await (await create_conversation(host)).export("nanocoder", tmp_path / "out")
    (tmp_path / "out" / "more").mkdir()
    (tmp_path / "out" / "more" / "index.jsonl").write_text('{"id":"another"}\n')
    reports = await host.import_sessions(tmp_path / "out")
    assert (len(reports), reports.unknown_paths) == (1, (str(tmp_path / "out" / "more" / "index.jsonl"),))
