"""Exports that are session files, in treering's own format and in those of other programs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Literal, get_args

import pytest

from treering import (
    ContentLike,
    Context,
    DialectCannot,
    EntryNotFound,
    ExportExists,
    ExportFormat,
    InvalidInput,
    Message,
    OpaqueEntry,
    Session,
    SessionHost,
    ToolResultPart,
    Usage,
    UsageRecord,
    image,
    plain_text,
    text,
    tool_result,
    tool_use,
)
from treering.projections.tokens import message_tokens

DATA = Path(__file__).resolve().parents[1] / "data"
OMP_FILE = DATA / "omp_v3.jsonl"


async def load_with_context(host: SessionHost, path: Path) -> tuple[Session, Context]:
    session = await host.load(path, read_only=True)
    return session, await session.context()


def file_bytes(session: Session) -> bytes:
    assert session.file_path is not None
    return Path(session.file_path).read_bytes()


def write_session_file(root: Path, content: bytes) -> None:
    root.mkdir()
    (root / "odd.jsonl").write_bytes(content)


@pytest.mark.parametrize("name", ["native", "pi"])
async def test_an_exported_path_through_a_torn_batch_keeps_its_entries(
    root: Path, tmp_path: Path, name: Literal["native", "pi"]
) -> None:
    message, base = {"role": "user", "content": "Hello"}, {"timestamp": "2026-01-01T10:00:00Z"}
    batch = {"session": "odd", "id": "torn", "i": 0, "n": 2}
    if name == "native":
        header, parent, mark = {"type": "session", "version": 1, "id": "odd", **base}, "parent_id", {"batch": batch}
        message["content"] = [{"type": "text", "text": {"content": "Hello"}}]  # type: ignore[assignment]  # parts
    else:
        header = {"type": "session", "version": 3, "id": "odd", "cwd": "/w", **base}
        parent, mark = "parentId", {"treering": {"batch": batch}}
    lines = [
        header,
        {"type": "message", "id": "a", parent: None, **base, "message": message},
        {"type": "message", "id": "torn", parent: "a", **base, "message": message, **mark},
        {"type": "message", "id": "b", parent: "torn", **base, "message": message},
    ]
    write_session_file(root, "".join(json.dumps(line) + "\n" for line in lines).encode())
    async with SessionHost(root) as host:
        session = await host.load("odd", read_only=True)
        path = await session.export(name, tmp_path / "path.jsonl", leaf_id="b")
        copy, context = await load_with_context(host, path)
        assert copy.path() == session.path() == ["a", "torn", "b"]
        assert [each.entry_id for each in context.messages] == ["a", "b"]
        assert context.warnings == ()


async def test_a_native_export_equals_the_file_byte_for_byte(full_session: Session, tmp_path: Path) -> None:
    path = await full_session.export("native", tmp_path / "copy.jsonl")
    assert path.read_bytes() == file_bytes(full_session) == await full_session.export("native")
    assert path.stat().st_mode & 0o777 == 0o600
    async with SessionHost(tmp_path / "elsewhere") as other:
        copy, context = await load_with_context(other, path)
        assert copy.id == full_session.id
        assert context == await full_session.context()
        assert await copy.entries() == await full_session.entries()


async def test_unknown_fields_unknown_types_and_damage_are_copied(root: Path, tmp_path: Path) -> None:
    lines = [
        b'{"type":"session","id":"odd","version":1,"timestamp":"2026-01-01T10:00:00Z","mood":"sunny"}',
        b'{"type":"message","id":"a","parent_id":null,"timestamp":"2026-01-01T10:00:01Z","x":1,"message":{"role":"user","content":"Hello"}}',
        b"no json",
        b'{"type":"novel","id":"b","parent_id":"a","timestamp":"2026-01-01T10:00:02Z","chapter":3}',
    ]
    write_session_file(root, b"".join(line + b"\n" for line in lines))
    async with SessionHost(root) as host:
        session = await host.load("odd", read_only=True)
        assert await session.export("native") == (root / "odd.jsonl").read_bytes()
        anew = tmp_path / "odd-pi.jsonl"
        await session.export("pi", anew)
        copy, context = await load_with_context(host, anew)
        assert context.messages == (await session.context()).messages
        last = (await copy.entries())[-1]
        assert (last.id, last.parent_id) == ("b", "a")
        [original] = [entry for entry in await session.entries() if isinstance(entry, OpaqueEntry)]
        assert getattr(last, "custom").data == original.value  # noqa: B009  # of any type that has the attribute


@pytest.mark.parametrize("name", ["pi_v1.jsonl", "pi_v2.jsonl", "pi_v3.jsonl", "omp_v3.jsonl"])
async def test_files_of_other_dialects_are_exported_in_their_own_dialect_and_natively(
    tmp_path: Path, name: str
) -> None:
    own: Literal["pi", "omp"] = "omp" if name.startswith("omp") else "pi"
    path = tmp_path / name
    shutil.copy(DATA / name, path)
    async with SessionHost(tmp_path) as host:
        session = await host.load(path, read_only=True)
        copied = await session.export(own)
        if name.endswith("v3.jsonl"):
            assert copied == path.read_bytes()
        (tmp_path / "copy.jsonl").write_bytes(copied)
        await session.export("native", tmp_path / "native.jsonl")
        expected = await session.context()
        for each in ("copy.jsonl", "native.jsonl"):
            other, context = await load_with_context(host, tmp_path / each)
            # Files of oh-my-pi record the model that answers next in another way than native files.
            assert context.messages == expected.messages
            assert context == expected or (own, each) == ("omp", "native.jsonl")
            assert other.path() == session.path()


async def test_a_pi_or_omp_export_of_a_native_session_has_the_same_context(
    full_session: Session, tmp_path: Path
) -> None:
    for dialect in ("pi", "omp"):
        path = await full_session.export(dialect, tmp_path / f"{dialect}.jsonl")
        assert b'"parentId"' in path.read_bytes()
        async with SessionHost(tmp_path / "elsewhere") as other:
            copy, context = await load_with_context(other, path)
            assert context == await full_session.context()
            assert copy.labels() == full_session.labels()
            assert copy.name == full_session.name
            ours, theirs = await full_session.entries(), await copy.entries()
            assert [(entry.type, entry.id, entry.parent_id) for entry in theirs] == [
                (entry.type, entry.id, entry.parent_id) for entry in ours
            ]


async def test_a_message_with_several_tool_results_becomes_several_messages_for_pi(
    parallel_calls: Session, tmp_path: Path
) -> None:
    path = await parallel_calls.export("pi", tmp_path / "pi.jsonl")
    async with SessionHost(tmp_path / "elsewhere") as other:
        copy, context = await load_with_context(other, path)
        answers = [
            part for message in await copy.messages() for part in message.content if isinstance(part, ToolResultPart)
        ]
        names = [message.tool_name for message in await copy.messages() if message.role == "tool"]
        assert [part.tool_result.text for part in answers] == ["112", "9 m", "7"]
        assert names == ["count", "measure", "count"]
        assert [message.role for message in await copy.messages()] == [
            *("user", "assistant", "tool", "tool"),
            *("assistant", "tool", "user", "assistant"),
        ]
        assert context.messages[-1] == (await parallel_calls.context()).messages[-1]
        assert set(parallel_calls.path()) <= set(copy.path())


EDITS: list[tuple[ContentLike | None, list[str]]] = [
    (None, ["[result left out]", "[result left out]"]),
    ("short", ["short", "[result left out]"]),
    ([tool_result("c2", "two"), tool_result("c1", "one"), text("And")], ["one", "two", "And"]),
]


@pytest.mark.parametrize("format", ["pi", "omp"])
@pytest.mark.parametrize(("replacement", "shown"), EDITS)
async def test_the_edit_of_a_message_that_is_split_applies_to_all_of_it(
    session: Session,
    host: SessionHost,
    tmp_path: Path,
    format: Literal["pi", "omp"],
    replacement: ContentLike | None,
    shown: list[str],
) -> None:
    calls = Message("assistant", (tool_use("c1", "ls"), tool_use("c2", "ls")), provider="maker", model="m")
    results = Message("user", (tool_result("c1", "secret"), tool_result("c2", "secret"), text("secret")))
    last = Message("tool", (tool_result("c3", "secret"),))
    called = Message("assistant", (tool_use("c3", "ls"),), provider="maker", model="m")
    ids = await session.append_many([calls, results, called, last])
    await session.append_context_edit(ids[1], replacement)
    await session.append_context_edit(ids[3], [tool_result("c3", "three")])
    path = await session.export(format, tmp_path / "split.jsonl")
    async with SessionHost(tmp_path / "elsewhere") as other:
        _, context = await load_with_context(other, path)
        sent = [words for each in context.messages if each.role != "assistant" for words in words_of(each.message)]
        assert sent == [*shown, "three"]
    reports = await host.import_sessions(path)
    assert [report.added for report in reports] == [0], "the session has everything that the file has"


def words_of(message: Message) -> list[str]:
    parts = (part.tool_result.text if isinstance(part, ToolResultPart) else part for part in message.content)
    return [part if isinstance(part, str) else plain_text([part]) for part in parts]


@pytest.mark.parametrize("format", ["pi", "omp"])
async def test_content_that_pi_cannot_represent_is_exported_as_text(
    session: Session, tmp_path: Path, format: Literal["pi", "omp"]
) -> None:
    remote_image = image("https://rings.example/oak.png", "image/png", kind="url")
    placeholder = "[image: https://rings.example/oak.png]"
    asked = await session.append_message("user", ["Which tree?", remote_image])
    await session.append_message("assistant", tool_use("c1", "look", {}))
    await session.append_message("tool", tool_result("c1", [remote_image, text("seen")]))
    await session.append_message("tool", "said unasked")
    await session.append_message("tool", [])
    await session.append_message("bashExecution", "ls")
    await session.append_custom_message("ext", [remote_image])
    async with SessionHost(tmp_path / "elsewhere") as other:
        copy, context = await load_with_context(other, await session.export(format, tmp_path / "copy.jsonl"))
        messages = [each.message for each in context.messages]
        assert [each.entry_id for each in context.messages] == [
            each.entry_id for each in (await session.context()).messages
        ]
        assert [each.role for each in messages] == ["user", "assistant", "tool", "user", "user", "user", "custom"]
        assert messages[0].content == (text("Which tree?"), text(placeholder))
        assert messages[2].content == (tool_result("c1", [text(placeholder), text("seen")]),)
        assert [plain_text(each.content) for each in messages[3:]] == ["said unasked", "", "ls", placeholder]
        assert await copy.all_messages() == messages[:-1]
    await session.append_context_edit(asked, [remote_image])
    async with SessionHost(tmp_path / "edited") as other:
        _, context = await load_with_context(other, await session.export(format, tmp_path / "edited.jsonl"))
        assert context.messages[0].content == (text(placeholder),)
    async with SessionHost(tmp_path / format, dialect=format) as other:
        own = await other.create(cwd="/work/orchard")
        with pytest.raises(DialectCannot, match="not its URL"):
            await own.append_message("user", remote_image)


@pytest.mark.parametrize("format", ["pi", "omp"])
async def test_an_answer_that_names_no_model_is_exported_with_the_model_in_effect(
    session: Session, tmp_path: Path, format: Literal["pi", "omp"]
) -> None:
    unknown = await session.append_message("assistant", "who am I?")
    change = await session.append_model_change("maker", "m-1")
    await session.append_message("assistant", "one")
    await session.append_message("assistant", "two", provider="maker", model="m-2")
    await session.append_message("assistant", "three")
    await session.branch(change)
    await session.append_message("assistant", "elsewhere")
    path = await session.export(format, tmp_path / "copy.jsonl")
    written = [json.loads(line) for line in path.read_text().splitlines()]
    exported = [line["message"] for line in written if line["type"] == "message"]
    models = [("unknown", "unknown"), *(("maker", f"m-{number}") for number in (1, 2, 2, 1))]
    assert [(each["provider"], each["model"]) for each in exported] == models
    async with SessionHost(tmp_path / "elsewhere") as other:
        copy, context = await load_with_context(other, path)
        assert context.model == (await session.context()).model
        assert await copy.all_messages() == await session.all_messages()
        assert copy.path()[0] == unknown


async def test_an_entry_appended_aside_does_not_become_the_leaf_of_a_pi_export(
    session: Session, tmp_path: Path
) -> None:
    first = await session.append_message("user", "one")
    leaf = await session.append_message("assistant", "two")
    await session.append_message("user", "aside", below=first, aside=True)
    path = await session.export("pi", tmp_path / "pi.jsonl")
    async with SessionHost(tmp_path / "elsewhere") as other:
        copy, context = await load_with_context(other, path)
        assert copy.leaf_id == leaf
        assert context.messages == (await session.context()).messages


@pytest.mark.parametrize("format", ["native", "pi", "json"])
async def test_an_exported_path_imports_as_a_session_with_a_new_id(
    full_session: Session, host: SessionHost, tmp_path: Path, format: Literal["native", "pi", "json"]
) -> None:
    ids = await full_session.append_many([user_message("one"), user_message("two"), user_message("three")])
    path = await full_session.export(format, tmp_path / "path.jsonl", leaf_id=ids[1])
    [report] = await host.import_sessions(path)
    assert report.id != full_session.id
    copy = await host.load(report.id)
    assert copy.path() == full_session.path(ids[1])
    assert copy.header.parent_session in (full_session.id, full_session.file_path)
    assert (await copy.context()).messages == (await full_session.context(ids[1])).messages
    with pytest.raises(EntryNotFound):
        await full_session.export(format, leaf_id="nobody")


def user_message(content: str) -> Message:
    return Message("user", (text(content),))


@pytest.mark.parametrize("format", ["native", "pi", "json", "markdown", "html", "picoclaw", "dive"])
async def test_an_empty_session_and_a_session_in_memory_can_be_exported(format: ExportFormat, session: Session) -> None:
    assert (await session.export(format)).strip()
    async with SessionHost() as host:
        other = await host.create()
        assert (await other.export(format)).strip()
        await other.append_message("user", "Hello")
        assert b"Hello" in await other.export(format)


@pytest.mark.parametrize("format", ["picoclaw", "dive"])
async def test_exports_in_other_programs_formats_can_be_imported(
    full_session: Session, tmp_path: Path, format: ExportFormat
) -> None:
    path = await full_session.export(format, tmp_path / "theirs.json")
    async with SessionHost(tmp_path / "elsewhere") as other:
        [report] = await other.import_sessions(path)
        assert report.format == format
        copy = await other.load(report.id)
        assert "And the pine?" in [plain_text(each.content) for each in await copy.all_messages()]


async def test_a_nanocoder_export_is_a_folder(full_session: Session, tmp_path: Path) -> None:
    folder = tmp_path / "nanocoder"
    path = await full_session.export("nanocoder", folder)
    assert path.is_relative_to(folder)
    assert json.loads((path / "metadata.json").read_text())["id"] == full_session.id
    with pytest.raises(ExportExists):
        await full_session.export("nanocoder", folder)
    assert await full_session.export("nanocoder", folder, overwrite=True) == path
    with pytest.raises(InvalidInput, match="folder"):
        await full_session.export("nanocoder")


LINEAR: tuple[Literal["dive", "picoclaw", "nanocoder"], ...] = ("dive", "picoclaw", "nanocoder")


@pytest.mark.parametrize("format", LINEAR)
async def test_an_export_of_a_truncated_session_imports_without_the_removed_messages(
    session: Session, host: SessionHost, tmp_path: Path, format: Literal["dive", "picoclaw", "nanocoder"]
) -> None:
    await session.append_message("system", "Bake well.")
    for number in range(3):
        await session.append_message("user", f"q{number}")
        await session.append_message("assistant", f"a{number}")
    await session.truncate_history(2)
    out = await session.export(format, tmp_path / "out")
    async with SessionHost(tmp_path / "elsewhere") as elsewhere:
        (report,) = await elsewhere.import_sessions(out)
        messages = (await (await elsewhere.load(report.id)).context()).messages
    conversation = [(each.role, plain_text(each.content)) for each in messages]
    assert conversation == [("system", "Bake well."), ("user", "q2"), ("assistant", "a2")]
    assert conversation == [(each.role, plain_text(each.content)) for each in (await session.context()).messages]
    (report,) = await host.import_sessions(out)
    assert (report.id, report.added) == (session.id, 0)


async def test_a_dive_export_shows_what_a_compaction_kept_from_before_an_earlier_one(
    session: Session, host: SessionHost, tmp_path: Path
) -> None:
    first = await session.append_message("user", "one")
    await session.append_message("system", "Bake well.")
    await session.append_compaction("gone", None, 10)
    await session.append_message("user", "two")
    await session.append_compaction("earlier", first, 10)
    await session.append_message("user", "three")
    assert await words_of_export(session, "dive", tmp_path) == ["Bake well.", "earlier", "one", "two", "three"]
    assert [words for each in (await session.context()).messages for words in words_of(each.message)] == [
        *("Bake well.", "earlier", "one", "two", "three")
    ]
    (report,) = await host.import_sessions(tmp_path / "dive.out")
    assert (report.id, report.added) == (session.id, 0)


async def words_of_export(
    session: Session, format: Literal["dive", "picoclaw", "nanocoder"], folder: Path
) -> list[str]:
    """Export a session, import the file elsewhere, and return the texts and results that its context shows."""
    path = await session.export(format, folder / f"{format}.out")
    async with SessionHost(folder / f"{format}.elsewhere") as elsewhere:
        (report,) = await elsewhere.import_sessions(path)
        context = await (await elsewhere.load(report.id)).context()
        return [words for each in context.messages for words in words_of(each.message) if words]


@pytest.mark.parametrize("format", LINEAR)
async def test_an_export_with_one_path_shows_edited_messages_as_the_context_does(
    session: Session, tmp_path: Path, format: Literal["dive", "picoclaw", "nanocoder"]
) -> None:
    asked = await session.append_message("user", "secret question")
    dropped = await session.append_message("assistant", "secret aside")
    called = await session.append_message("assistant", tool_use("c1", "ls", {"at": "secret"}))
    await session.append_tool_execution("c1", "ls", {"at": "secret"}, "secret answer")
    kept = await session.append_message("assistant", [text("I look."), tool_use("c2", "cat")])
    answered = await session.append_message("tool", tool_result("c2", "secret words"))
    extra = await session.append_custom_message("ext", "secret note")
    await session.append_context_edit(asked, "question")
    for each in (dropped, called, extra):
        await session.append_context_edit(each, None)
    await session.append_context_edit(answered, "words")
    assert await words_of_export(session, format, tmp_path) == ["question", "I look.", "words"]
    files = [tmp_path / f"{format}.out"] if format != "nanocoder" else (tmp_path / "nanocoder.out").rglob("*.json*")
    assert not any(b"secret" in file.read_bytes() for file in files)
    await session.append_context_edit(answered, None)
    await session.append_compaction("", kept, 10)
    shown = ["I look.", "[result left out]"]
    compacted = tmp_path / "compacted"
    compacted.mkdir()
    assert await words_of_export(session, format, compacted) == shown


@pytest.mark.parametrize("format", LINEAR)
async def test_a_compaction_may_keep_what_an_edit_leaves_out_first(
    session: Session, tmp_path: Path, format: Literal["dive", "picoclaw", "nanocoder"]
) -> None:
    await session.append_message("user", "one")
    first = await session.append_message("user", "two")
    await session.append_message("user", "three")
    await session.append_compaction("", first, 10)
    await session.append_context_edit(first, None)
    assert await words_of_export(session, format, tmp_path) == ["three"]


@pytest.mark.parametrize("format", LINEAR)
async def test_an_answer_that_failed_before_it_began_is_left_out_for_other_programs(
    session: Session, host: SessionHost, tmp_path: Path, format: Literal["dive", "picoclaw", "nanocoder"]
) -> None:
    await session.append_message("user", "one")
    await session.append(Message("assistant", stop_reason="error", error="overloaded"))
    await session.append_message("user", "two")
    path = await session.export(format, tmp_path / "out")
    async with SessionHost(tmp_path / "elsewhere") as elsewhere:
        (report,) = await elsewhere.import_sessions(path)
        messages = await (await elsewhere.load(report.id)).all_messages()
        assert [(each.role, plain_text(each.content)) for each in messages] == [("user", "one"), ("user", "two")]
    (report,) = await host.import_sessions(path)
    assert report.added == 0


async def test_a_turn_of_dive_without_a_message_that_is_left_out_takes_none_of_the_turn_before(
    session: Session,
) -> None:
    await session.append_many([user_message("one"), UsageRecord("turn", Usage(1, 1), messages=1)])
    left_out, _ = await session.append_many([user_message("two"), user_message("three")])
    await session.append(UsageRecord("turn", Usage(2, 2), messages=2))
    await session.append_context_edit(left_out, None)
    lines = [json.loads(line) for line in (await session.export("dive")).splitlines()]
    turns = [[part["text"] for each in line["data"]["messages"] for part in each["content"]] for line in lines[1:]]
    assert turns == [["one"], ["three"]]


@pytest.mark.parametrize("format", ["nanocoder", "picoclaw", "dive"])
async def test_what_was_reset_does_not_come_back_in_other_programs_formats(
    root: Path, tmp_path: Path, format: ExportFormat
) -> None:
    write_session_file(root, OMP_FILE.read_bytes())
    async with SessionHost(root) as host, SessionHost() as other:
        session = await host.load(root / "odd.jsonl", read_only=True)
        assert "early" in [plain_text(each.content) for each in await session.all_messages()]
        shown = [plain_text(each.content) for each in await session.messages()]
        assert shown == ["How many pears?", "Nine.", "noted"]
        await session.export(format, tmp_path / "exported")
        (report,) = await other.import_sessions(tmp_path / "exported")
        messages = await (await other.load(report.id)).messages()
    assert [plain_text(each.content) for each in messages] == shown


async def test_a_nanocoder_export_states_the_tokens_that_treering_counts(session: Session, tmp_path: Path) -> None:
    messages = [Message("user", (text("How tall is an oak? " * 20),)), Message("assistant", (text("Tall."),))]
    await session.append_many(messages)
    path = await session.export("nanocoder", tmp_path / "nanocoder")
    total = json.loads((path / "metadata.json").read_text())["stats"]["totalTokens"]
    assert total == sum(map(message_tokens, messages))


FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)


@pytest.mark.parametrize("name", FORMATS)
async def test_an_archived_session_can_be_exported_in_every_format(
    full_session: Session, host: SessionHost, tmp_path: Path, name: ExportFormat
) -> None:
    before = await full_session.export(name, tmp_path / "before")
    await host.archive(full_session)
    reader = await host.load(full_session.id, read_only=True)
    after = await reader.export(name, tmp_path / "after")
    if name == "native":
        assert after.read_bytes().startswith(before.read_bytes())
    files = [after] if after.is_file() else sorted(each for each in after.rglob("*") if each.is_file())
    assert b"Thanks." in b"".join(each.read_bytes() for each in files)
