"""Exports that are session files, in treering's own format and in those of other programs."""

import json
import shutil
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import pytest

from treering import EntryNotFound, InvalidInput, Message, Session, SessionHost, Usage, image, text, tool_use
from treering.actors.transfer.exporting import export_names
from treering.entries import ContentLike, OpaqueEntry, ToolResultPart, UsageRecord, plain_text, tool_result
from treering.errors import DialectCannot, ExportExists
from treering.projections.tokens import message_tokens
from treering.sessions import ExportFormat

from .conftest import BASE, HEADER, Carry, LoadOdd

DATA = Path(__file__).resolve().parents[1] / "data"


@pytest.mark.parametrize("name", ["native", "pi"])
async def test_an_exported_path_through_a_torn_batch_keeps_its_entries(
    load_odd: LoadOdd, tmp_path: Path, elsewhere: SessionHost, name: Literal["native", "pi"]
) -> None:
    message: dict[str, object] = {"role": "user", "content": "Hello"}
    batch = {"session": "odd", "id": "torn", "i": 0, "n": 2}
    if name == "native":
        header, parent, mark = HEADER, "parent_id", {"batch": batch}
        message["content"] = [{"type": "text", "text": {"content": "Hello"}}]
    else:
        header = {**HEADER, "version": 3, "cwd": "/w"}
        parent, mark = "parentId", {"treering": {"batch": batch}}
    session = await load_odd(
        header,
        {"type": "message", "id": "a", parent: None, **BASE, "message": message},
        {"type": "message", "id": "torn", parent: "a", **BASE, "message": message, **mark},
        {"type": "message", "id": "b", parent: "torn", **BASE, "message": message},
    )
    copy = await elsewhere.load(await session.export(name, tmp_path / "path.jsonl", leaf_id="b"), read_only=True)
    context = await copy.context()
    assert copy.path() == session.path() == ["a", "torn", "b"]
    assert [each.entry_id for each in context.messages] == ["a", "b"]
    assert context.warnings == ()


async def test_native_exports_equal_files(full_session: Session, read_there: Carry, root: Path, tmp_path: Path) -> None:
    path = await full_session.export("native", tmp_path / "copy.jsonl")
    assert path.read_bytes() == (root / "main.jsonl").read_bytes() == await full_session.export("native")
    assert path.stat().st_mode & 0o777 == 0o600
    copy = await read_there(full_session, "native")
    assert copy.id == full_session.id
    assert await copy.context() == await full_session.context()
    assert await copy.entries() == await full_session.entries()


async def test_unknown_fields_and_types_and_damage_are_copied(load_odd: LoadOdd, root: Path, read_there: Carry) -> None:
    message = {"role": "user", "content": "Hello"}
    session = await load_odd(
        {**HEADER, "mood": "sunny"},
        {"type": "message", "id": "a", "parent_id": None, **BASE, "x": 1, "message": message},
        "no json",
        {"type": "novel", "id": "b", "parent_id": "a", **BASE, "chapter": 3},
    )
    assert await session.export("native") == (root / "odd.jsonl").read_bytes()
    copy = await read_there(session, "pi")
    assert (await copy.context()).messages == (await session.context()).messages
    last = (await copy.entries())[-1]
    assert (last.id, last.parent_id) == ("b", "a")
    [original] = [entry for entry in await session.entries() if isinstance(entry, OpaqueEntry)]
    assert getattr(last, "custom").data == original.value  # noqa: B009  # of any type that has the attribute


@pytest.mark.parametrize("name", ["pi_v1.jsonl", "pi_v2.jsonl", "pi_v3.jsonl", "omp_v3.jsonl"])
async def test_files_of_other_dialects_are_exported_in_their_own_dialect_and_natively(
    tmp_path: Path, elsewhere: SessionHost, read_there: Carry, name: str
) -> None:
    own: Literal["pi", "omp"] = "omp" if name.startswith("omp") else "pi"
    shutil.copy(DATA / name, tmp_path / name)
    session = await elsewhere.load(tmp_path / name, read_only=True)
    if name.endswith("v3.jsonl"):
        assert await session.export(own) == (tmp_path / name).read_bytes()
    expected = await session.context()
    for each in (own, "native"):
        copy = await read_there(session, each)
        context = await copy.context()
        # Files of oh-my-pi record the model that answers next in another way than native files.
        assert context.messages == expected.messages
        assert context == expected or (own, each) == ("omp", "native")
        assert copy.path() == session.path()


@pytest.mark.parametrize("format", ["pi", "omp"])
async def test_a_pi_or_omp_export_of_a_native_session_has_the_same_context(
    full_session: Session, read_there: Carry, format: Literal["pi", "omp"]
) -> None:
    assert b'"parentId"' in await full_session.export(format)
    copy = await read_there(full_session, format)
    assert await copy.context() == await full_session.context()
    assert copy.labels() == full_session.labels()
    assert copy.name == full_session.name
    theirs, ours = await copy.entries(), await full_session.entries()
    assert [(each.type, each.id, each.parent_id) for each in theirs] == [
        (each.type, each.id, each.parent_id) for each in ours
    ]


async def test_several_tool_results_are_several_messages_for_pi(parallel_calls: Session, read_there: Carry) -> None:
    copy = await read_there(parallel_calls, "pi")
    messages = await copy.messages()
    answers = [part for each in messages for part in each.content if isinstance(part, ToolResultPart)]
    assert [part.tool_result.text for part in answers] == ["112", "9 m", "7"]
    assert [each.tool_name for each in messages if each.role == "tool"] == ["count", "measure", "count"]
    assert [each.role for each in messages] == [
        *("user", "assistant", "tool", "tool"),
        *("assistant", "tool", "user", "assistant"),
    ]
    assert (await copy.context()).messages[-1] == (await parallel_calls.context()).messages[-1]
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
    read_there: Carry,
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
    messages = await (await read_there(session, format)).messages()
    assert [words for each in messages if each.role != "assistant" for words in words_of(each)] == [*shown, "three"]
    reports = await host.import_sessions(tmp_path / "out" / "0")
    assert [report.added for report in reports] == [0], "the session has everything that the file has"


def words_of(message: Message) -> list[str]:
    parts = (part.tool_result.text if isinstance(part, ToolResultPart) else part for part in message.content)
    return [part if isinstance(part, str) else plain_text([part]) for part in parts]


@pytest.mark.parametrize("format", ["pi", "omp"])
async def test_content_that_pi_cannot_represent_is_exported_as_text(
    session: Session, read_there: Carry, tmp_path: Path, format: Literal["pi", "omp"]
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
    copy = await read_there(session, format)
    shown, original = (await copy.context()).messages, (await session.context()).messages
    assert [each.entry_id for each in shown] == [each.entry_id for each in original]
    messages = [each.message for each in shown]
    assert [each.role for each in messages] == ["user", "assistant", "tool", "user", "user", "user", "custom"]
    assert messages[0].content == (text("Which tree?"), text(placeholder))
    assert messages[2].content == (tool_result("c1", [text(placeholder), text("seen")]),)
    assert [plain_text(each.content) for each in messages[3:]] == ["said unasked", "", "ls", placeholder]
    assert await copy.all_messages() == messages[:-1]
    await session.append_context_edit(asked, [remote_image])
    assert (await (await read_there(session, format)).messages())[0].content == (text(placeholder),)
    async with SessionHost(tmp_path / format, dialect=format) as other:
        own = await other.create(cwd="/work/orchard")
        with pytest.raises(DialectCannot, match="not its URL"):
            await own.append_message("user", remote_image)


@pytest.mark.parametrize("format", ["pi", "omp"])
async def test_an_answer_that_names_no_model_is_exported_with_the_model_in_effect(
    session: Session, read_there: Carry, format: Literal["pi", "omp"]
) -> None:
    unknown = await session.append_message("assistant", "who am I?")
    change = await session.append_model_change("maker", "m-1")
    await session.append_message("assistant", "one")
    await session.append_message("assistant", "two", provider="maker", model="m-2")
    await session.append_message("assistant", "three")
    await session.branch(change)
    await session.append_message("assistant", "elsewhere")
    written = [json.loads(line) for line in (await session.export(format)).splitlines()]
    exported = [line["message"] for line in written if line["type"] == "message"]
    models = [("unknown", "unknown"), *(("maker", f"m-{number}") for number in (1, 2, 2, 1))]
    assert [(each["provider"], each["model"]) for each in exported] == models
    copy = await read_there(session, format)
    assert (await copy.context()).model == (await session.context()).model
    assert await copy.all_messages() == await session.all_messages()
    assert copy.path()[0] == unknown


async def test_an_entry_appended_aside_is_not_the_leaf_of_a_pi_export(session: Session, read_there: Carry) -> None:
    first = await session.append_message("user", "one")
    leaf = await session.append_message("assistant", "two")
    await session.append_message("user", "aside", below=first, aside=True)
    copy = await read_there(session, "pi")
    assert copy.leaf_id == leaf
    assert (await copy.context()).messages == (await session.context()).messages


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


Linear: TypeAlias = Literal["dive", "picoclaw", "nanocoder"]
LINEAR: tuple[Linear, ...] = get_args(Linear)
in_linear_formats = pytest.mark.parametrize("format", LINEAR)
"""Formats of other programs, which have one path only."""


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


@in_linear_formats
async def test_an_export_of_a_truncated_session_imports_without_the_removed_messages(
    session: Session, host: SessionHost, import_there: Carry, tmp_path: Path, format: Linear
) -> None:
    await session.append_message("system", "Bake well.")
    for number in range(3):
        await session.append_message("user", f"q{number}")
        await session.append_message("assistant", f"a{number}")
    await session.truncate_history(2)
    copy = await import_there(session, format)
    conversation = [(each.role, plain_text(each.content)) for each in await copy.messages()]
    assert conversation == [("system", "Bake well."), ("user", "q2"), ("assistant", "a2")]
    assert conversation == [(each.role, plain_text(each.content)) for each in await session.messages()]
    (report,) = await host.import_sessions(tmp_path / "out" / "0")
    assert (report.format, report.id, report.added) == (format, session.id, 0)


async def words_shown(session: Session) -> list[str]:
    """Return the texts and results that the context of a session shows."""
    return [words for each in await session.messages() for words in words_of(each) if words]


async def test_a_dive_export_shows_what_a_compaction_kept_from_before_an_earlier_one(
    session: Session, host: SessionHost, import_there: Carry, tmp_path: Path
) -> None:
    first = await session.append_message("user", "one")
    await session.append_message("system", "Bake well.")
    await session.append_compaction("gone", None, 10)
    await session.append_message("user", "two")
    await session.append_compaction("earlier", first, 10)
    await session.append_message("user", "three")
    shown = ["Bake well.", "earlier", "one", "two", "three"]
    assert await words_shown(await import_there(session, "dive")) == await words_shown(session) == shown
    (report,) = await host.import_sessions(tmp_path / "out" / "0")
    assert (report.id, report.added) == (session.id, 0)


@in_linear_formats
async def test_an_export_with_one_path_shows_edited_messages_as_the_context_does(
    session: Session, import_there: Carry, tmp_path: Path, format: Linear
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
    assert await words_shown(await import_there(session, format)) == ["question", "I look.", "words"]
    written = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert written
    assert not any(b"secret" in file.read_bytes() for file in written)
    await session.append_context_edit(answered, None)
    await session.append_compaction("", kept, 10)
    async with SessionHost() as other:
        (report,) = await other.import_sessions(await session.export(format, tmp_path / "compacted"))
        assert await words_shown(await other.load(report.id)) == ["I look.", "[result left out]"]


@in_linear_formats
async def test_messages_that_show_nothing_are_left_out_for_other_programs(
    session: Session, host: SessionHost, import_there: Carry, tmp_path: Path, format: Linear
) -> None:
    """An answer that failed before it began; and the first one that a compaction kept, if an edit left it out later."""
    await session.append_message("user", "one")
    first = await session.append_message("user", "two")
    await session.append(Message("assistant", stop_reason="error", error="overloaded"))
    await session.append_message("user", "three")
    messages = await (await import_there(session, format)).all_messages()
    shown = [(each.role, plain_text(each.content)) for each in messages]
    assert shown == [("user", "one"), ("user", "two"), ("user", "three")]
    (report,) = await host.import_sessions(tmp_path / "out" / "0")
    assert report.added == 0
    await session.append_compaction("", first, 10)
    await session.append_context_edit(first, None)
    async with SessionHost() as other:
        (report,) = await other.import_sessions(await session.export(format, tmp_path / "compacted"))
        assert await words_shown(await other.load(report.id)) == ["three"]


async def test_a_turn_of_dive_without_a_message_that_is_left_out_takes_none_of_the_one_before(session: Session) -> None:
    await session.append_many([user_message("one"), UsageRecord("turn", Usage(1, 1), messages=1)])
    left_out, _ = await session.append_many([user_message("two"), user_message("three")])
    await session.append(UsageRecord("turn", Usage(2, 2), messages=2))
    await session.append_context_edit(left_out, None)
    lines = [json.loads(line) for line in (await session.export("dive")).splitlines()]
    turns = [[part["text"] for each in line["data"]["messages"] for part in each["content"]] for line in lines[1:]]
    assert turns == [["one"], ["three"]]


@in_linear_formats
async def test_what_was_reset_does_not_come_back_in_other_programs_formats(
    elsewhere: SessionHost, import_there: Carry, tmp_path: Path, format: Linear
) -> None:
    path = tmp_path / "theirs.jsonl"
    shutil.copy(DATA / "omp_v3.jsonl", path)
    session = await elsewhere.load(path, read_only=True)
    assert "early" in [plain_text(each.content) for each in await session.all_messages()]
    shown = ["How many pears?", "Nine.", "noted"]
    assert await words_shown(await import_there(session, format)) == await words_shown(session) == shown


async def test_a_nanocoder_export_states_the_tokens_that_treering_counts(session: Session, tmp_path: Path) -> None:
    messages = [Message("user", (text("How tall is an oak? " * 20),)), Message("assistant", (text("Tall."),))]
    await session.append_many(messages)
    path = await session.export("nanocoder", tmp_path / "nanocoder")
    total = json.loads((path / "metadata.json").read_text())["stats"]["totalTokens"]
    assert total == sum(map(message_tokens, messages))


FORMATS = export_names()


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
