"""What was written here for programs whose messages have no ids comes back as what it was: nothing is doubled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import pytest

from treering import MessageEntry, Session, SessionHost, plain_text, text, tool_result, tool_use

pytestmark = pytest.mark.parametrize("anyio_backend", [("asyncio", {})], ids=["asyncio"])

Format: TypeAlias = Literal["picoclaw", "dive", "nanocoder"]
FORMATS = get_args(Format)
KEY = "telegram:42"


async def talked(host: SessionHost, *, key: bool = False, session_id: str | None = None) -> Session:
    """Have a conversation in which words are said twice, tools answer together, and much stands beside the messages."""
    session = await host.get_or_create(KEY) if key else await host.create(session_id, cwd="/work/orchard")
    await session.append_model_change("openai", "gpt-oak")
    await session.append_session_info(name="The orchard")
    await session.append_message("user", "Go on.")
    await session.append_message("assistant", "I look.")
    await session.append_message("user", "Go on.")
    calls = [tool_use("c1", "ls", {"path": "."}), tool_use("c2", "cat", {"path": "a", "lines": [1, 2.5]})]
    await session.append_message("assistant", [text("Two at once."), *calls], model="gpt-oak")
    results = [tool_result("c1", "a b"), tool_result("c2", "words")]
    if session.header.version == 3:  # pi keeps results one by one
        for each in results:
            await session.append_message("tool", [each])
    else:
        await session.append_message("user", results)
    await session.append_message("assistant", "Done.")
    return session


async def said(session: Session) -> list[str]:
    return [plain_text(each.content) for each in await session.history()]


async def ids(session: Session) -> list[str | None]:
    return [entry.id for entry in await session.entries()]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dialect", ["native", "pi"])
@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize("archived", [False, True])
async def test_all_of_it_is_there(format: Format, dialect: str, key: bool, archived: bool, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "sessions", dialect="native" if dialect == "native" else "pi") as host:
        session = await talked(host, key=key)
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
async def test_it_is_there_after_the_session_went_on(format: Format, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "sessions") as host:
        session = await talked(host)
        path = session.path()
        await session.export(format, tmp_path / "out")
        await session.append_message("user", "Go on.")
        await session.branch(path[3])
        await session.append_message("user", "Something else.")
        before = await ids(session)
        (report,) = await host.import_sessions(tmp_path / "out")
        assert report.added == 0
        assert await ids(session) == before


@pytest.mark.parametrize("format", FORMATS)
async def test_a_compacted_session(format: Format, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "sessions") as host:
        session = await talked(host)
        await session.append_compaction("They look.", session.path()[-1], 100)
        await session.append_message("user", "Go on.")
        before = await ids(session)
        await session.export(format, tmp_path / "out")
        (report,) = await host.import_sessions(tmp_path / "out")
        assert report.added == 0
        assert await ids(session) == before


def continued(path: Path, format: Format, *messages: str) -> None:
    """Have the other program go on with a file."""
    if format == "picoclaw":
        document = json.loads(path.read_text())
        document["messages"] += [{"role": "user", "content": each} for each in messages]
        path.write_text(json.dumps(document))
    else:
        given = [{"role": "user", "content": [{"type": "text", "text": each}]} for each in messages]
        data = {"id": f"e-{messages[0]}", "type": "turn", "timestamp": "2030-01-01T10:00:00Z", "messages": given}
        with path.open("a") as file:
            file.write(json.dumps({"line_type": "event", "data": data}) + "\n")


@pytest.mark.parametrize("format", ["picoclaw", "dive"])
async def test_what_the_other_program_went_on_with_follows(format: Format, tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with SessionHost(tmp_path / "sessions") as host:
        session = await talked(host)
        await session.set_label(session.path()[2], "begin")  # the leaf, and no message
        leaf, before = session.leaf_id, await said(session)
        await session.export(format, out)
        continued(out, format, "Go on.", "And on.")
        (report,) = await host.import_sessions(out)
        assert report.added == (2 if format == "picoclaw" else 3), "a turn of dive has a record"
        assert await said(session) == [*before, "Go on.", "And on."]
        assert leaf in session.path()
        (again,) = await host.import_sessions(out)
        assert again.added == 0

        mine = await session.append_message("user", "Mine.")
        continued(out, format, "Further.")
        (further,) = await host.import_sessions(out)
        assert further.added == (1 if format == "picoclaw" else 2)
        assert session.leaf_id == mine
        assert await said(session) == [*before, "Go on.", "And on.", "Mine."]


@pytest.mark.parametrize("format", ["picoclaw", "dive"])
async def test_what_both_went_on_with_becomes_two_branches(format: Format, tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with SessionHost(tmp_path / "sessions") as host:
        session = await talked(host)
        count = session.message_count
        forking = session.leaf_id
        await session.export(format, out)
        mine = await session.append_message("user", "Mine.")
        continued(out, format, "Theirs.")
        await host.import_sessions(out)
        assert (session.leaf_id, session.message_count) == (mine, count + 2)
        (theirs,) = (
            each.id for each in await session.entries() if isinstance(each, MessageEntry) and "Theirs." in str(each)
        )
        assert theirs is not None
        assert forking in session.path(theirs)


@pytest.mark.parametrize("format", ["picoclaw", "dive"])
@pytest.mark.parametrize("key", [False, True])
async def test_another_conversation_under_the_same_name_is_a_session_of_its_own(
    format: Format, key: bool, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    async with SessionHost(tmp_path / "elsewhere") as elsewhere, SessionHost(tmp_path / "sessions") as host:
        other = await elsewhere.get_or_create(KEY) if key else await elsewhere.create("plan")
        await other.append_message("user", "Another matter.")
        await other.export(format, out)
        session = await talked(host, key=key, session_id="plan")
        before = await ids(session)
        (report,) = await host.import_sessions(out)
        assert (report.existed, report.id != session.id) == (False, True)
        assert await ids(session) == before
        apart = await host.load(report.id)
        assert (await said(apart), apart.header.key) == (["Another matter."], None)
        continued(out, format, "Go on.")
        (again,) = await host.import_sessions(out)
        assert (again.id, again.existed) == (report.id, True)
        assert await said(apart) == ["Another matter.", "Go on."]


@pytest.mark.parametrize("format", ["picoclaw", "dive"])
async def test_what_cannot_be_written_to_a_session_of_pi_becomes_one_of_its_own(format: Format, tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with SessionHost(tmp_path / "sessions", dialect="pi") as host:
        session = await host.create()
        await session.append_message("user", "Hello")
        await session.export(format, out)
        continued(out, format, "Go on.")
        (report,) = await host.import_sessions(out)
        assert (report.existed, report.id != session.id) == (False, True)
        assert session.message_count == 1
        assert await said(await host.load(report.id)) == ["Hello", "Go on."]
        (again,) = await host.import_sessions(out)
        assert (again.id, again.added) == (report.id, 0)


@pytest.mark.parametrize("session_id", ["Plan_A", "a_b", "plan"])
async def test_an_id_that_is_no_plain_key(session_id: str, tmp_path: Path) -> None:
    """A document of picoclaw has the id for a key, where a session has none."""
    async with SessionHost(tmp_path / "sessions") as host:
        session = await talked(host, session_id=session_id)
        await session.export("picoclaw", tmp_path / "out")
        (report,) = await host.import_sessions(tmp_path / "out")
        assert (report.id, report.added) == (session_id, 0)
        continued(tmp_path / "out", "picoclaw", "More.")
        (report,) = await host.import_sessions(tmp_path / "out")
        assert (report.id, report.added) == (session_id, 1)
        assert len(await host.list_sessions()) == 1


async def test_a_session_that_holds_no_message_yet_takes_the_file_in(tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "elsewhere") as elsewhere, SessionHost(tmp_path / "sessions") as host:
        await (await talked(elsewhere, key=True)).export("picoclaw", tmp_path / "out")
        session = await host.get_or_create(KEY)
        await session.append_session_info(name="Mine")
        (report,) = await host.import_sessions(tmp_path / "out")
        assert (report.id, report.existed) == (session.id, True)
        assert session.message_count == 7


async def test_a_session_that_was_imported_goes_on_in_both_places(tmp_path: Path) -> None:
    """Some of its entries have ids that follow from the file, others were made here."""
    source = tmp_path / "s.json"
    source.write_text(json.dumps({"key": KEY, "messages": [{"role": "user", "content": "One"}], "summary": ""}))
    async with SessionHost(tmp_path / "sessions") as host:
        (report,) = await host.import_sessions(source)
        session = await host.load(report.id)
        await session.append_message("assistant", "Two")
        await session.export("picoclaw", source, overwrite=True)
        continued(source, "picoclaw", "Three")
        (report,) = await host.import_sessions(source)
        assert (report.added, await said(session)) == (1, ["One", "Two", "Three"])


async def test_the_index_of_a_folder_for_nanocoder_is_passed_over(tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "sessions") as host:
        await (await talked(host)).export("nanocoder", tmp_path / "out")
        (tmp_path / "out" / "more").mkdir()
        (tmp_path / "out" / "more" / "index.jsonl").write_text('{"id":"another"}\n')
        reports = await host.import_sessions(tmp_path / "out")
        assert (len(reports), reports.unknown_paths) == (1, (str(tmp_path / "out" / "more" / "index.jsonl"),))
