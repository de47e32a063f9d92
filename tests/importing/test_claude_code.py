"""Importing Claude Code's transcripts: the session is the conversation that Claude Code itself shows."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from treering import Message, MessageEntry, Session, SessionHost, Usage, plain_text
from treering.contexts import calculate_budget
from treering.entries import CompactionEntry, ImagePart, TextPart, ThinkingPart, ToolResultPart, ToolUsePart
from treering.errors import ForeignFormatError
from treering.sessions import ImportReport, ImportReports

DATA = Path(__file__).resolve().parents[1] / "data" / "claude_code"
Import = Callable[..., Awaitable[tuple[Session, ImportReport]]]
P = TypeVar("P", ThinkingPart, ImagePart, ToolUsePart, ToolResultPart)
WORK = "3f0f5b0e-7d51-4a57-9b43-0d6d1c7a2f10"
TANGLED = "8c2f7a55-0c1e-4c39-a1a6-52b7a8a0c7d1"
pytestmark = pytest.mark.parametrize("anyio_backend", [("asyncio", {})], ids=["asyncio"])


async def import_sample(host: SessionHost, name: str) -> tuple[Session, list[ImportReport]]:
    reports = await host.import_sessions(DATA / name)
    return await host.load(reports[0].id), reports


@pytest.fixture
def imported(host: SessionHost, tmp_path: Path) -> Import:
    """Import a transcript with these lines."""

    async def written(*lines: bytes) -> tuple[Session, ImportReport]:
        path = tmp_path / "transcript.jsonl"
        path.write_bytes(b"".join(lines))
        (report,) = await host.import_sessions(path)
        return await host.load(report.id), report

    return written


@pytest.fixture
async def work(host: SessionHost) -> Session:
    return (await import_sample(host, "work.jsonl"))[0]


async def message_of(session: Session, entry_id: str) -> Message:
    entry = await session.entry(entry_id)
    assert isinstance(entry, MessageEntry)
    return entry.message


def part_of(message: Message, kind: type[P]) -> P:
    return next(part for part in message.content if isinstance(part, kind))


async def parents(session: Session) -> dict[str, str | None]:
    return {entry.id or "": entry.parent_id for entry in await session.entries()}


def file_bytes(session: Session) -> bytes:
    return Path(session.file_path or "").read_bytes()


async def test_the_lines_of_one_answer_become_one_message(work: Session) -> None:
    answer = await message_of(work, "a1")
    assert [type(part) for part in answer.content] == [ThinkingPart, TextPart, ToolUsePart, ToolUsePart]
    assert part_of(answer, ThinkingPart).thinking.signature == "c2lnbmVk"
    assert answer.usage == Usage(10, 42, 300, 20, 372)  # from the last of its lines
    assert (answer.provider, answer.model) == ("anthropic", "claude-sonnet-4-5")
    assert answer.metadata == {"message_id": "msg_1", "request_id": "req_msg_1"}


async def test_results_of_parallel_calls_follow_their_answer_and_each_other(work: Session) -> None:
    found = await parents(work)
    assert (found["r1"], found["r2"], found["q1"]) == ("a1", "r1", "r2")
    first, second = await message_of(work, "r1"), await message_of(work, "r2")
    assert (first.role, first.tool_name, second.tool_name) == ("tool", "Read", "Read")
    (part,) = second.content
    assert isinstance(part, ToolResultPart)
    assert part.tool_result.tool_use_id == "toolu_2"
    assert [type(each) for each in part.tool_result.content] == [TextPart, ImagePart]
    assert b"not for the model" not in file_bytes(work)
    assert part_of(await message_of(work, "r3"), ToolResultPart).tool_result.is_error


async def test_lines_that_are_not_messages_do_not_break_the_chain(host: SessionHost) -> None:
    session, reports = await import_sample(host, "work.jsonl")
    found = await parents(session)
    assert (found["u1"], found["u2"]) == (None, "a5")  # their parents in the file are progress and system lines
    skipped = [finding.message for finding in reports[0].findings if finding.code == "skipped"]
    assert any("2 lines of kind progress" in message for message in skipped)
    assert any("1 line of kind file-history-snapshot" in message for message in skipped)
    assert {finding.severity for finding in reports[0].findings} == {"note"}


async def test_a_boundary_and_its_summary_become_a_compaction(work: Session) -> None:
    entry = await work.entry("c1")
    assert isinstance(entry, CompactionEntry)
    assert entry.parent_id == "a7"  # the answer whose line is its logical parent
    assert entry.compaction.summary == "The pears were looked at; Williams is to be pruned."
    assert (entry.compaction.tokens_before, entry.compaction.details) == (154000, {"trigger": "auto"})
    context = await work.context()
    assert [each.message.role for each in context.messages] == [
        "compactionSummary",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    full = await work.context("a7")
    assert [each.entry_id for each in full.messages] == ["u1", "a1", "r1", "r2", "q1", "a5", "u2", "a6", "r3", "a7"]


async def test_the_context_after_a_compaction_has_the_preserved_messages(host: SessionHost, tmp_path: Path) -> None:
    lines = (
        (DATA / "work.jsonl")
        .read_text()
        .replace('"preTokens":154000', '"preTokens":154000,"preservedSegment":{"headUuid":"u2","tailUuid":"a8"}')
    )
    path = tmp_path / "kept.jsonl"
    path.write_text(lines)
    (report,) = await host.import_sessions(path)
    context = await (await host.load(report.id)).context("c1")
    assert [each.entry_id for each in context.messages][1:] == ["u2", "a6", "r3", "a7"]


async def test_titles_images_errors_and_queued_prompts_are_imported(work: Session) -> None:
    assert (work.header.title, work.name) == ("Pruning pear trees", "Orchard")
    assert work.leaf_id == "a10"  # the entry for the title set by a person does not become the leaf
    assert work.header.cwd == "/home/mara/orchard"
    assert plain_text((await message_of(work, "q1")).content) == "And the quinces, please."
    shown = part_of(await message_of(work, "u2"), ImagePart)
    assert (shown.image.source.media_type, shown.image.source.data) == ("image/jpeg", "/9j/4AAQ")
    assert (await message_of(work, "u2")).metadata["git_branch"] == "spring"
    hidden = part_of(await message_of(work, "a7"), ThinkingPart).thinking
    assert (hidden.redacted, hidden.signature) == (True, "b3BhcXVl")
    failed = await message_of(work, "a9")
    assert (failed.stop_reason, failed.error) == ("error", "API Error: 529 overloaded")
    assert (failed.model, failed.provider) == (None, None)  # an API error comes from no model
    assert failed.content == (), "no model sees it"


async def test_entries_have_the_times_and_ids_of_their_lines(work: Session) -> None:
    lines = {
        line["uuid"]: line for line in map(json.loads, (DATA / "work.jsonl").read_text().splitlines()) if "uuid" in line
    }
    for entry in await work.entries():
        if isinstance(entry, MessageEntry):
            assert entry.timestamp.strftime("%Y-%m-%dT%H:%M:%S.000Z") == lines[entry.id]["timestamp"]


async def test_a_forked_session_names_its_parent(host: SessionHost, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (DATA / "work.jsonl").read_text().splitlines()]
    copied = [line | {"sessionId": "fork", "forkedFrom": {"sessionId": WORK, "messageUuid": "u1"}} for line in lines]
    own = {"type": "user", "uuid": "own", "parentUuid": "a10", "sessionId": "fork", "message": {"content": "On."}}
    path = tmp_path / "fork.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (*copied, own)))
    (report,) = await host.import_sessions(path)
    fork, (original, _) = await host.load(report.id), await import_sample(host, "work.jsonl")
    assert (fork.id, fork.header.parent_session, fork.leaf_id) == ("fork", WORK, "own")
    assert original.header.parent_session is None
    assert set(original.path()) < set(fork.path())


async def test_lines_of_another_session_become_a_session_of_their_own(host: SessionHost) -> None:
    session, reports = await import_sample(host, "tangled.jsonl")
    assert [report.id for report in reports] == [
        TANGLED,
        "0b6d2f8e-91aa-4f0e-8d0c-6a1e64f0b3c2",
        f"{TANGLED}.agent-side1",
    ]
    other = await host.load(reports[1].id)
    assert await parents(other) == {"f1": None, "f2": "f1"}
    assert "f1" not in await parents(session)


async def test_orphans_several_roots_and_lines_out_of_order_are_linked(host: SessionHost) -> None:
    session, reports = await import_sample(host, "tangled.jsonl")
    assert await parents(session) == {
        "u1": None,  # its parent is missing from the file
        "a1": "u1",
        "r1": "a1",
        "a2": "r1",
        "u2": "a2",  # continues the conversation under another session id
        "a3": "u2",  # its parent is not in the file
        "u3": None,  # a second root
        "a4": "u3",
        "r9": "u3",  # the result of a missing call
        "a6": "a4",
        "a5": "a6",  # comes before its parent in the file
    }
    assert session.leaf_id == "a5"
    missing = next(finding for finding in reports[0].findings if finding.code == "parent_missing")
    assert (missing.line, missing.byte, missing.severity) == (1, 0, "warning")
    assert "2 lines" in missing.message
    assert any("of kind duplicate" in finding.message for finding in reports[0].findings)


def line(kind: str, uuid: str, parent: str | None, content: object, **message: object) -> bytes:
    body = {"role": kind, "content": content, **message}
    time = "2026-03-01T09:00:00Z"
    fields = {"type": kind, "sessionId": "s", "uuid": uuid, "parentUuid": parent, "timestamp": time, "message": body}
    return json.dumps(fields).encode() + b"\n"


async def test_lines_of_one_uuid_become_entries_of_their_own(host: SessionHost, tmp_path: Path) -> None:
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(
        line("user", "u1", None, "one") + line("assistant", "u1", "u1", "1", id="m1") + line("user", "u1", "u1", "two")
    )
    (report,) = await host.import_sessions(path)
    session = await host.load(report.id)
    ids = session.path()
    assert [plain_text(each.content) for each in await session.messages()] == ["one", "1", "two"]
    assert (ids[0], len({*ids}), report.findings[0].code, report.findings[0].line) == ("u1", 3, "duplicate_id", 2)
    assert report.findings[0].message == "2 lines with the id of an earlier line: read under an id derived from it"
    path.write_bytes(path.read_bytes() + line("user", ids[1], "u1", "three") + line("user", "u1", "u1", "four"))
    await host.import_sessions(path)
    grown = session.path()
    assert (grown[:3], len({*grown}), len(await session.messages())) == (ids, 4, 4)


def said(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


CALL = [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]
RESULT = [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]
WHILE_A_TOOL_RAN = (
    line("user", "u1", None, "one")
    + line("assistant", "a1", "u1", CALL, id="m1")
    + line("user", "u2", "a1", "sent while it ran")
    + line("assistant", "a2", "u2", [said("Wait.")], id="m2")
)


PATHS = {
    "a prompt that was rewound": (
        line("user", "u1", None, "one")
        + line("assistant", "a1", "u1", [said("1")], id="m1")
        + line("user", "u2", "a1", "two")
        + line("assistant", "a2", "u2", [said("2")], id="m2")
        + line("user", "u3", "a1", "rather three"),
        ["u1 a1 u3", "u1 a1 u2 a2"],
    ),
    "messages sent while a tool ran": (
        WHILE_A_TOOL_RAN
        + line("user", "r1", "a2", RESULT)
        + line("assistant", "a3", "r1", [said("It is done.")], id="m3"),
        ["u1 a1 r1 u2 a2 a3"],
    ),
    "a late result": (WHILE_A_TOOL_RAN + line("user", "r1", "a1", RESULT), ["u1 a1 r1 u2 a2"]),
    "the lines of one answer on two branches": (
        line("user", "u1", None, "one")
        + line("assistant", "a1", "u1", CALL, id="m1")
        + line("user", "r1", "a1", RESULT)
        + line("user", "v1", None, "one")
        + line("assistant", "b1", "v1", CALL, id="m1")
        + line("user", "s1", "b1", RESULT),
        ["v1 b1 s1", "u1 a1 r1"],
    ),
}


@pytest.mark.parametrize("what", PATHS)
async def test_entries_are_on_the_paths_on_which_claude_code_shows_them(what: str, imported: Import) -> None:
    lines, paths = PATHS[what]
    session, _ = await imported(lines)
    expected = [each.split() for each in paths]
    assert session.leaf_id == expected[0][-1]
    assert [session.path(each[-1]) for each in expected] == expected


async def test_a_synthetic_message_has_no_model(imported: Import) -> None:
    session, _ = await imported(
        line("user", "u1", None, "one")
        + line("assistant", "a1", "u1", [said("1")], id="m1", model="claude-sonnet-4-5")
        + line("assistant", "a2", "a1", [said("No response requested.")], id="m2", model="<synthetic>")
    )
    message = await message_of(session, "a2")
    assert (message.model, message.provider, plain_text(message.content)) == (None, None, "No response requested.")
    model = (await session.context()).model
    assert model is not None
    assert (model.provider, model.model_id) == ("anthropic", "claude-sonnet-4-5")


async def test_an_answer_that_was_interrupted_says_so(imported: Import) -> None:
    answer = json.loads(line("assistant", "a1", "u1", [said("On")], id="m1", stop_reason=None))
    aborted = answer | {"isAbortedMidStream": True}
    session, _ = await imported(line("user", "u1", None, "one") + json.dumps(aborted).encode() + b"\n")
    message = await message_of(session, "a1")
    assert (message.stop_reason, plain_text(message.content)) == ("aborted", "On")


async def test_commands_that_are_system_lines_are_messages_but_no_title(host: SessionHost, imported: Import) -> None:
    command = {"type": "system", "subtype": "local_command", "sessionId": "s"}
    named = command | {"uuid": "c1", "parentUuid": None, "content": "<command-name>/cost</command-name>"}
    shown = command | {"uuid": "c2", "parentUuid": "c1", "content": "<local-command-stdout>2 $</local-command-stdout>"}
    lines = [json.dumps(each).encode() + b"\n" for each in (named, shown)]
    session, _ = await imported(b"".join(lines) + line("user", "u1", "c2", "Was that much?"))
    assert session.path() == ["c1", "c2", "u1"]
    message = await message_of(session, "c2")
    assert (message.role, plain_text(message.content)) == ("user", shown["content"])
    assert message.metadata["is_meta"] is True
    assert [row.title for row in await host.list_sessions()] == ["Was that much?"]


async def test_a_first_prompt_that_was_rewound_is_not_the_parent_of_the_next(host: SessionHost, tmp_path: Path) -> None:
    report = {"type": "system", "subtype": "turn_duration", "sessionId": "s", "uuid": "t1", "parentUuid": "u1"}
    path = tmp_path / "rewound.jsonl"
    path.write_bytes(
        line("user", "u1", None, "First") + json.dumps(report).encode() + b"\n" + line("user", "u2", None, "Second")
    )
    [imported] = await host.import_sessions(path)
    session = await host.load(imported.id)
    assert await parents(session) == {"u1": None, "u2": None}
    assert [plain_text(each.content) for each in (await session.context()).messages] == ["Second"]


def result_of(call: str) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": call, "content": f"result of {call}"}


PICTURE: dict[str, object] = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
}
T1, T2, T3 = map(result_of, ("t1", "t2", "t3"))
PARALLEL = tuple(
    line("assistant", f"a{each}", f"a{each - 1}" if each > 1 else "u1", [CALL[0] | {"id": f"t{each}"}], id="m1")
    for each in (1, 2, 3)
)
MIXED: dict[str, tuple[list[tuple[str, str, list[dict[str, object]]]], str]] = {
    "words after": ([("r1", "a1", [T1]), ("r2", "a2", [T2]), ("r3", "a3", [T3, said("w")])], "r3"),
    "words before": ([("r1", "a1", [T1]), ("r2", "a2", [T2]), ("r3", "a3", [said("w"), T3])], "r3"),
    "between results": ([("r1", "a1", [T1]), ("r2", "a2", [T2, said("w"), T3])], "r2"),
    "around results": ([("r1", "a3", [said("v"), T1, T2, T3, said("w")])], "r1"),
    "an image": ([("r1", "a3", [T1, PICTURE, T2, said("w"), T3])], "r1"),
    "in the first line, below the last": (
        [("r1", "a1", [T1, said("w")]), ("r2", "a2", [T2]), ("r3", "a3", [T3])],
        "r3",
    ),
    "in the first line, below it": ([("r1", "a1", [said("w"), T1]), ("r2", "a2", [T2]), ("r3", "a3", [T3])], "r1"),
    "in a chain": ([("r1", "a3", [T1, said("v")]), ("r2", "r1", [T2]), ("r3", "r2", [said("w"), T3])], "r3"),
    "in each line": ([(f"r{each}", f"a{each}", [said("w"), result_of(f"t{each}")]) for each in (1, 2, 3)], "r2"),
}


@pytest.mark.parametrize("shape", MIXED)
async def test_results_and_words_of_one_line_come_results_first(shape: str, host: SessionHost, tmp_path: Path) -> None:
    answers, below = MIXED[shape]
    path = tmp_path / "mixed.jsonl"
    lines = [line("user", "u1", None, "one"), *PARALLEL, *(line("user", *each) for each in answers)]
    lines.append(line("assistant", "b1", below, [said("done")], id="m2"))
    for count in range(len(lines) - len(answers), len(lines) + 1):  # as the file grows
        path.write_bytes(b"".join(lines[:count]))
        (report,) = await host.import_sessions(path)
    session = await host.load(report.id)
    assert report.findings == ()
    messages = (await session.context()).messages
    parts = [part for each in messages for part in each.content]
    results = [part.tool_result.tool_use_id for part in parts if isinstance(part, ToolResultPart)]
    words = [part.get("text") for _, _, each in answers for part in each if part not in (T1, T2, T3)]
    assert [each.role for each in messages[:2]] == ["user", "assistant"]
    assert sorted(results) == ["t1", "t2", "t3"]
    after = parts[parts.index(messages[1].content[-1]) + 1 :]
    assert [type(each) for each in after[:3]] == [ToolResultPart] * 3
    assert [each.text.content if isinstance(each, TextPart) else None for each in after[3:]] == [*words, "done"]
    assert {each.role for each in messages if any(isinstance(part, ToolResultPart) for part in each.content)} == {
        "tool"
    }
    built = await session.build_context(calculate_budget(100_000))
    assert [each.entry_id for each in built.messages] == [each.entry_id for each in messages]  # nothing was mended


async def test_words_beside_a_late_result_follow_the_messages_before_them(imported: Import) -> None:
    session, _ = await imported(
        WHILE_A_TOOL_RAN
        + line("user", "r1", "a2", [said("And now?"), *RESULT])
        + line("user", "r2", "r1", [said("Again?"), *RESULT])  # the call is answered already
    )
    texts = [plain_text(each.content) for each in (await session.context()).messages]
    assert session.path()[:5] == ["u1", "a1", "r1", "u2", "a2"]
    assert [each for each in texts if each] == ["one", "sent while it ran", "Wait.", "And now?", "Again?"]


async def test_calls_without_ids_get_their_results(imported: Import) -> None:
    nameless = [{"type": "tool_use", "name": "Bash", "input": given} for given in ("ls", {"command": "pwd"})]
    session, _ = await imported(
        line("user", "u1", None, "one")
        + line("assistant", "a1", "u1", nameless)
        + line("user", "r1", "a1", [{"type": "tool_result", "content": "first"}])
        + line("user", "r2", "a1", [{"type": "tool_result", "content": "second"}])
    )
    calls = [part.tool_use for part in (await message_of(session, "a1")).content if isinstance(part, ToolUsePart)]
    assert [call.input for call in calls] == [{"input": "ls"}, {"command": "pwd"}]
    answered = [
        part_of(await message_of(session, each), ToolResultPart).tool_result.tool_use_id for each in ("r1", "r2")
    ]
    assert answered == [call.id for call in calls]


async def test_a_cycle_of_parents_is_broken_and_reported(host: SessionHost, tmp_path: Path) -> None:
    one = {"type": "user", "sessionId": "s", "uuid": "1", "parentUuid": "3", "message": {"content": "one"}}
    lines = [one, {**one, "uuid": "2", "parentUuid": "1"}, {**one, "uuid": "3", "parentUuid": "2"}]
    (tmp_path / "cycle.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (report,) = await host.import_sessions(tmp_path / "cycle.jsonl")
    assert report.entries == 3
    assert [finding.code for finding in report.findings] == ["cycle"]
    assert sorted((await host.load("s")).path()) == ["1", "2", "3"]


@pytest.mark.feature("U-26", "D-69")
async def test_a_sub_agents_transcript_becomes_a_session_that_names_the_calling_entry(host: SessionHost) -> None:
    session, reports = await import_sample(host, "delegating.jsonl")
    assert [report.id for report in reports] == [
        session.id,
        f"{session.id}.agent-a1b2c3d4e5f60718a",  # matched by the result of the call
        f"{session.id}.agent-b9c8d7e6f50413223",  # matched by the prompt of the call
    ]
    assert len({report.ref for report in reports}) == 3
    for report, title, first in zip(reports[1:], ("hedge", None), ("hedge-u1", "pond-u1"), strict=True):
        agent = await host.load(report.id)
        header = agent.header
        assert (header.parent_session, header.parent_entry, header.title) == (session.id, "a1", title)
        calls = await message_of(session, header.parent_entry or "")
        assert part_of(calls, ToolUsePart).tool_use.name == "Agent"
        assert next(iter(await parents(agent))) == first
    assert session.header.parent_session is None


@pytest.mark.feature("U-26", "D-69")
async def test_a_real_sub_agent_names_the_entry_that_called_it(host: SessionHost, shared_fixtures: Path) -> None:
    folder = shared_fixtures / "claude_code" / "subagent"
    parent, agent = await host.import_sessions(folder / "parent.jsonl")
    header = (await host.load(agent.id)).header
    assert (header.parent_session, header.parent_entry) == (parent.id, "pa1")
    caller = await message_of(await host.load(parent.id), "pa1")
    assert [part.tool_use.name for part in caller.content if isinstance(part, ToolUsePart)] == ["Task"]
    alone = await host.import_sessions(folder / "agent-a0ad4f44468bdf20d.jsonl")
    assert [(report.id, report.added) for report in alone] == [(agent.id, 0)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def of_session(session: str, data: bytes, **more: object) -> bytes:
    fields = {**json.loads(data), "sessionId": session, **more}
    return json.dumps({key: value for key, value in fields.items() if value is not None}).encode() + b"\n"


def transcript_with_agent(session: str) -> bytes:
    """Return a transcript whose last call started the sub-agent x1."""
    call = [{"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "Look at the hedge."}}]
    return (
        of_session(session, line("user", f"{session}-u1", None, "one"))
        + of_session(session, line("assistant", f"{session}-a1", f"{session}-u1", call, id=f"{session}-m1"))
        + of_session(session, line("user", f"{session}-r1", f"{session}-a1", RESULT), toolUseResult={"agentId": "x1"})
    )


def agent_line(session: str | None) -> bytes:
    prompt = line("user", "x-u1", None, "Look at the hedge.")
    return of_session("", prompt, sessionId=session, agentId="x1", isSidechain=True)


@pytest.mark.parametrize(
    ("named", "together", "parent"),
    [("gone", True, "gone"), ("gone", False, "gone"), (None, True, "other"), ("agent-x1", True, "other")],
)
async def test_a_sub_agent_belongs_to_the_session_that_it_names_or_to_the_only_one_in_the_folder(
    host: SessionHost, project: Path, named: str | None, together: bool, parent: str
) -> None:
    """The transcript of the session that it names may have been deleted."""
    (project / "other.jsonl").write_bytes(of_session("other", line("user", "o-u1", None, "one")))
    (project / "agent-x1.jsonl").write_bytes(agent_line(named))
    *_, report = await host.import_sessions(project if together else project / "agent-x1.jsonl")
    header = (await host.load(report.id)).header
    assert (header.parent_session, header.parent_entry) == (parent, None)
    assert header.id == "gone.agent-x1" or parent != "gone"


@pytest.mark.parametrize("order", [("copy", "first"), ("first", "copy")])
async def test_a_copy_of_a_transcript_does_not_claim_the_sub_agents_of_the_original(
    host: SessionHost, project: Path, order: tuple[str, str]
) -> None:
    for name in ("copy", "first"):
        (project / f"{name}.jsonl").write_bytes(transcript_with_agent(name))
    (project / "agent-x1.jsonl").write_bytes(agent_line("first"))
    for name in order:
        await host.import_sessions(project / f"{name}.jsonl")
    header = (await host.load("first.agent-x1")).header
    assert (header.parent_session, header.parent_entry) == ("first", "first-a1")


async def test_a_sub_agent_in_a_transcripts_folder_belongs_to_it(host: SessionHost, tmp_path: Path) -> None:
    (tmp_path / "s" / "subagents").mkdir(parents=True)
    (tmp_path / "s.jsonl").write_bytes(transcript_with_agent("s"))
    (tmp_path / "s" / "subagents" / "agent-x1.jsonl").write_bytes(agent_line("s#x1"))
    _, report = await host.import_sessions(tmp_path / "s.jsonl")
    header = (await host.load(report.id)).header
    assert (header.parent_session, header.parent_entry) == ("s", "s-a1")


async def test_damage_is_reported_with_its_position(host: SessionHost) -> None:
    session, reports = await import_sample(host, "torn.jsonl")
    data = (DATA / "torn.jsonl").read_bytes()
    found = [(finding.code, finding.line, finding.byte) for finding in reports[0].findings if finding.line]
    starts = [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)]
    assert found == [("damaged", 2, starts[1]), ("damaged", 3, starts[2]), ("truncated", 6, starts[5])]
    assert await parents(session) == {"u1": None, "a1": "u1", "u2": "a1", "a2": "u2"}  # a1 follows a torn line
    assert any(finding.code == "left_out" for finding in reports[0].findings)


async def test_a_folder_of_transcripts_is_imported(host: SessionHost, tmp_path: Path) -> None:
    folder = tmp_path / "-home-mara-orchard"
    folder.mkdir()
    for name in ("work.jsonl", "torn.jsonl"):
        (folder / name).write_bytes((DATA / name).read_bytes())
    (folder / "broken.jsonl").write_bytes(b"nothing of use\n")
    reports = await host.import_sessions(folder, format="claude-code")
    assert [report.id for report in reports] == ["c0ffee00-1111-4222-8333-444455556666", WORK]
    assert isinstance(reports, ImportReports)
    assert reports.unknown_paths == (str(folder / "broken.jsonl"),)


async def test_a_byte_order_mark_and_windows_line_ends_are_accepted(host: SessionHost, imported: Import) -> None:
    plain, _ = await import_sample(host, "work.jsonl")
    data = (DATA / "work.jsonl").read_bytes().replace(WORK.encode(), b"windows")
    _, report = await imported(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n\r\n"))
    other = await host.load("windows")
    assert (report.entries, await other.messages()) == (16, await plain.messages())


async def test_a_first_line_of_any_length_is_recognized(host: SessionHost, tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    first = {"parentUuid": None, "sessionId": "s", "type": "user", "uuid": "1", "message": {"content": "x" * 1_000_000}}
    path.write_text(json.dumps(first, separators=(",", ":")) + "\n")
    (report,) = await host.import_sessions(path)
    assert (report.format, report.messages) == ("claude-code", 1)


async def test_a_file_without_messages_is_refused(host: SessionHost, tmp_path: Path) -> None:
    path = tmp_path / "titles.jsonl"
    path.write_text('{"type":"summary","summary":"A title","leafUuid":"elsewhere"}\n')
    with pytest.raises(ForeignFormatError, match="contains no messages of Claude Code"):
        await host.import_sessions(path)
    assert await host.list_sessions() == []


@pytest.mark.parametrize("place", [0, 1])
async def test_a_title_that_has_an_id_is_imported(place: int, host: SessionHost, tmp_path: Path) -> None:
    """The Claude Agent SDK gives such a line an id when it forks a session, or renames one in a store."""
    path = tmp_path / "fork.jsonl"
    prompt = {"type": "user", "uuid": "u1", "sessionId": "s", "cwd": "/work", "message": {"content": "Plant."}}
    lines = [json.dumps({**prompt, "parentUuid": None, "timestamp": "2026-01-01T00:00:00.000Z"})]
    title = {"type": "custom-title", "uuid": "t1", "sessionId": "s", "timestamp": "2026-01-02T00:00:00.000Z"}
    lines.insert(place, json.dumps({**title, "customTitle": "Orchard (fork)"}))
    path.write_text("\n".join(lines) + "\n")
    (report,) = await host.import_sessions(path)
    session = await host.load(report.id)
    assert (session.name, session.header.cwd, session.leaf_id) == ("Orchard (fork)", "/work", "u1")
    assert report.findings == ()


async def test_a_fork_by_the_claude_agent_sdk_has_its_messages_and_title(
    host: SessionHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sdk = pytest.importorskip("claude_agent_sdk")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    folder = tmp_path / "projects" / "work"
    folder.mkdir(parents=True)
    (folder / f"{WORK}.jsonl").write_bytes((DATA / "work.jsonl").read_bytes())
    forked = sdk.fork_session(WORK).session_id
    await host.import_sessions(folder / f"{forked}.jsonl")
    session = await host.load(forked)
    assert session.title == sdk.get_session_info(forked).custom_title
    expected = [message for message in sdk.get_session_messages(forked) if message.type == "assistant"]
    assert len({message.message["id"] for message in expected}) == len(
        [message for message in await session.messages() if message.role == "assistant"]
    )


async def test_documents_become_their_text_or_a_placeholder(imported: Import) -> None:
    words = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Dig first."}}
    composed = [{"type": "content", "content": each} for each in ([said("Then"), said("water.")], "Wait.", 7)]
    sheet = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}
    named = {**sheet, "title": "soil.pdf"}
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": [sheet]}]
    session, report = await imported(
        line("user", "u1", None, [words, *({"type": "document", "source": each} for each in composed)])
        + line("assistant", "a1", "u1", CALL, id="m1")
        + line("user", "r1", "a1", result)
        + line("user", "u2", "r1", [named, {"type": "text", "text": "Read it."}])
    )
    assert plain_text((await message_of(session, "u1")).content) == "Dig first.\nThen\nwater.\nWait.\n[file: unknown]"
    assert part_of(await message_of(session, "r1"), ToolResultPart).tool_result.text == "[file: application/pdf]"
    assert plain_text((await message_of(session, "u2")).content) == "[file: soil.pdf]\nRead it."
    assert not report.findings
