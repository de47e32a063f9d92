"""Gemini CLI sessions: later lines replace earlier ones, and rewound messages stay on their own branch."""

import json
from pathlib import Path

import pytest

from treering import plain_text, thinking, tool_result, tool_use
from treering.events.content import ImagePart, TextPart, ThinkingPart, ToolResultPart, ToolUsePart, image, text
from treering.events.entries import CustomEntry, Message, MessageEntry, ModelChangeEntry, SessionInfoEntry, Usage
from treering.events.errors import ForeignFormatError

from .conftest import ParsedSession, Read, ReadSessions, reader

HEAD = {"sessionId": "g-1", "projectHash": "h", "startTime": "2026-03-01T09:00:00.000Z"}


def log(path: Path, *lines: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in (HEAD, *lines)))
    return path


def user(key: str, text: str = "") -> dict[str, object]:
    return {"id": key, "type": "user", "content": text or key}


def call(key: str, output: str = "") -> dict[str, object]:
    """A call in an answer's record, with its result if an output is given."""
    record: dict[str, object] = {"id": key, "name": "read_file", "args": {"path": "bread.md"}, "status": "success"}
    return {**record, "result": [response(key, output)]} if output else record


def response(key: str, output: str) -> dict[str, object]:
    return {"functionResponse": {"id": key, "name": "read_file", "response": {"output": output}}}


def function_call(key: str) -> dict[str, object]:
    return {"functionCall": {"id": key, "name": "read_file", "args": {"path": "bread.md"}}}


def answer(key: str, content: object, total: int = 0, *calls: dict[str, object]) -> dict[str, object]:
    tokens = {"input": total, "output": 0, "cached": 0, "total": total} if total else None
    return {"id": key, "type": "gemini", "content": content, "tokens": tokens, "toolCalls": list(calls)}


def response_message(key: str, *responses: dict[str, object]) -> dict[str, object]:
    return {"id": key, "type": "user", "content": list(responses)}


def contents(session: ParsedSession) -> list[tuple[object, ...]]:
    """The contents of the messages on the path."""
    return [entry.message.content for entry in session.path() if isinstance(entry, MessageEntry)]


def token_totals(session: ParsedSession) -> list[int]:
    return [message.usage.total_tokens for message in session.messages if message.usage is not None]


TOOL_USE = tool_use("c1", "read_file", {"path": "bread.md"})


read = reader(log, "s.jsonl")


@pytest.fixture
def session(data: Path, read_sessions: ReadSessions) -> ParsedSession:
    """The session of the sample."""
    (session,) = read_sessions(data / "gemini" / "gemini.jsonl")
    return session


def test_the_last_line_of_each_message_is_read(session: ParsedSession) -> None:
    assert (session.header.id, session.header.cwd) == ("5a5a5a5a-0000-4000-8000-000000000001", "/work/bakery")
    assert session.roles == ["user", "assistant", "tool", "assistant", "user", "assistant", "user"]
    first, answer, result = session.messages[:3]
    assert [type(part) for part in first.content] == [TextPart, ImagePart]
    thought, words, call = answer.content
    assert isinstance(thought, ThinkingPart)
    assert thought.thinking.content == "Looking\n\nThe folder first."
    assert plain_text([words]) == "Let me look."
    assert isinstance(call, ToolUsePart)
    assert call.tool_use.input == {"path": "."}
    assert answer.usage == Usage(60, 25, 40, 0, 125)
    (part,) = result.content
    assert isinstance(part, ToolResultPart)
    assert (part.tool_result.tool_use_id, part.tool_result.content) == ("ls_1", "bread.md\ncake.md")
    assert result.tool_name == "list_directory"
    models = [entry.model_change.model_id for entry in session.entries if isinstance(entry, ModelChangeEntry)]
    assert models == ["gemini-3-pro", "gemini-3-flash"]
    infos = [entry.session_info.description for entry in session.entries if isinstance(entry, SessionInfoEntry)]
    assert infos == ["The recipes"]


def test_rewound_messages_stay_on_their_own_branch(session: ParsedSession) -> None:
    assert session.leaf_id == "i1"
    path = [entry.id for entry in session.path()]
    assert [each for each in path if each in ("g2", "u2", "g3", "u3", "i1")] == ["g2", "u3", "i1"]
    assert [entry.id for entry in session.path("g3")][-3:-1] != ["g2", "u3"]
    assert isinstance(session.entries[-1], CustomEntry), "an info record is not a message"


def test_a_rewind_at_the_end_moves_the_leaf(read: Read) -> None:
    session = read(user("a"), user("b"), {"$rewindTo": "b"})
    assert [entry.id for entry in session.entries[:2]] == ["a", "b"]
    assert [entry.id for entry in session.path()] == ["a", session.entries[2].id], "a mark of the rewind is the leaf"


def test_a_rewind_to_an_unknown_message_starts_a_new_root(read: Read) -> None:
    session = read(user("a"), {"$rewindTo": "x"}, user("b"))
    assert [entry.parent_id for entry in session.entries] == [None, None]
    session = read(user("a"), {"$rewindTo": "a"})
    assert [entry.type for entry in session.path()] == ["custom"]


def test_a_replaced_history_branches_where_it_differs(read: Read) -> None:
    new = [user("a"), user("b", "shorter"), user("d")]
    session = read(user("a"), user("b"), user("c"), {"$set": {"messages": new}}, user("e"))
    assert [plain_text(message.content) for message in session.messages] == ["a", "b", "c", "shorter", "d", "e"]
    texts = {
        entry.id: plain_text(message.content) for entry, message in zip(session.entries, session.messages, strict=True)
    }
    assert [texts[entry.id] for entry in session.path()] == ["a", "shorter", "d", "e"]
    assert [texts[entry.id] for entry in session.path("c")] == ["a", "b", "c"]


def test_a_document_of_the_older_format_is_read(data: Path, read_sessions: ReadSessions) -> None:
    (session,) = read_sessions(data / "gemini" / "gemini.json")
    assert session.header.id == "session-2026-03-01T09-00-5b5b5b5b"
    assert session.roles == ["user", "assistant", "tool", "assistant"]
    (part,) = session.messages[2].content
    assert isinstance(part, ToolResultPart)
    assert part.tool_result.is_error
    assert part.tool_result.content == "command not found"
    assert plain_text(session.messages[3].content) == "pytest is missing."


def test_all_sessions_under_a_folder_are_read(data: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    chats = tmp_path / "hash" / "chats"
    chats.mkdir(parents=True)
    log(chats / "session-1.jsonl", user("a"))
    (chats / "session-2.json").write_bytes((data / "gemini" / "gemini.json").read_bytes())
    assert [len(session.messages) for session in read_sessions(tmp_path)] == [1, 4]
    assert [len(session.messages) for session in read_sessions(tmp_path, "gemini")] == [1, 4]


def test_a_masked_history_repeats_no_calls_results_or_thinking(read: Read) -> None:
    thoughts = [{"subject": "Plan", "description": "Read it."}]
    original = {**answer("b", "Let me look.", 10, call("c1", "Flour.")), "thoughts": thoughts}
    parts = [{"text": "Plan: read it.", "thought": True}, {"text": "Let me look."}, function_call("c1")]
    masked = {**answer("b", parts, 10, call("c1", "...")), "thoughts": thoughts}
    history = [user("a"), masked, response_message("r", response("c1", "...")), answer("c", [{"text": "Done."}], 20)]
    session = read(user("a"), original, answer("c", "Done.", 20), {"$set": {"messages": history}}, user("d"))
    thought, words = thinking("Plan\n\nRead it."), text("Let me look.")
    assert contents(session) == [
        (text("a"),),
        (thought, words, TOOL_USE),
        (tool_result("c1", "..."),),
        (text("Done."),),
        (text("d"),),
    ]
    assert session.roles == ["user", "assistant", "tool", "assistant", "assistant", "tool", "assistant", "user"]
    assert token_totals(session) == [10, 20], "the usage of a copy is not counted again"


def test_an_equivalent_history_makes_no_branch(read: Read) -> None:
    before = [user("a"), answer("b", "Let me look.", 10, call("c1", "Flour.")), answer("c", "Done.", 20)]
    parts = [{"text": "Let me look."}, function_call("c1")]
    history = [
        {**user("a"), "content": [{"text": "a"}]},
        answer("b", parts, 10, call("c1", "Flour.")),
        response_message("r", response("c1", "Flour.")),
        answer("c", [{"text": "Done."}]),
    ]
    session = read(*before, {"$set": {"messages": history}}, user("d"))
    assert session.roles == ["user", "assistant", "tool", "assistant", "user"]
    assert len(contents(session)) == 5
    twice: list[dict[str, object]] = [{"$set": {"messages": history}}] * 2
    assert read(*before, *twice, user("d")).entries == session.entries


def resumed(answered: dict[str, object], *, output: str = "Flour.") -> list[dict[str, object]]:
    """The history that a session gets back when it is resumed: results once more, also those that are in a record."""
    results = (response("c1", output), response("c2", "Yeast."))
    again = [response_message("b_response", *results), response_message("r", *results)]
    return [user("a"), answered, *again, answer("c", [{"text": "Done."}])]


def started() -> list[dict[str, object]]:
    """The lines of a session with parallel calls, whose results are also in a message."""
    thoughts = [{"subject": "Plan", "description": "Read it."}]
    asked = {**answer("b", "", 10, call("c1", "Flour."), call("c2", "Yeast.")), "thoughts": thoughts}
    return [user("a"), asked, response_message("r", response("c1", "Flour."), response("c2", "Yeast.")),
            answer("c", "Done.", 20)]  # fmt: skip


def test_a_resumed_session_makes_no_branch(read: Read, tmp_path: Path, read_sessions: ReadSessions) -> None:
    """Its records then hold the results of all calls of the answer."""
    both: dict[str, object] = {"result": [response("c1", "Flour."), response("c2", "Yeast.")]}
    asked = answer("b", [function_call("c1"), function_call("c2")], 10, {**call("c1"), **both}, {**call("c2"), **both})
    history = resumed({**asked, "thoughts": started()[1]["thoughts"]})
    before = read_sessions(log(tmp_path / "before.jsonl", *started()))[0]
    assert read(*started(), {"$set": {"messages": history}}).entries == before.entries
    continued = read(*started(), {"$set": {"messages": history}}, user("d"))
    assert continued.roles == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert len(contents(continued)) == 6


def test_a_session_that_is_emptied_and_gets_its_history_back_makes_no_branch(read: Read) -> None:
    """The history then has no records, and its thoughts are as the model wrote them."""
    thought = {"text": "**Plan**\nRead it.", "thought": True}
    asked: dict[str, object] = {
        "id": "b", "type": "gemini", "content": [thought, function_call("c1"), function_call("c2")]
    }  # fmt: skip
    back: list[dict[str, object]] = [{"$set": {"messages": [user("a")]}}, {"$set": {"messages": resumed(asked)}}]
    session = read(*started(), *back, user("d"))
    assert session.roles == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert len(contents(session)) == 6
    assert token_totals(session) == [10, 20]
    masked: dict[str, object] = {"$set": {"messages": resumed(asked, output="...")}}
    other = read(*started(), masked, user("d"))
    assert contents(other)[2] == (tool_result("c1", "..."),)
    assert len(other.roles) > len(session.roles)


def test_each_call_gets_its_own_result_of_a_record_that_holds_all(read: Read) -> None:
    picture: dict[str, object] = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    parts = [response("c1", "Flour."), response("c2", "A cake."), picture]
    records = [{**call(key), "result": parts} for key in ("c1", "c2")]
    lines = [answer("b", "", 0, *records), response_message("r", *parts), user("d")]
    session = read(*lines)
    assert contents(session)[1:] == [
        (tool_result("c1", "Flour."),),
        (tool_result("c2", [text("A cake."), image("aGk=", "image/png")]),),
        (text("d"),),
    ]


def test_a_record_with_one_result_holds_all_that_follows_it(read: Read) -> None:
    """As of a tool that returns several texts and files."""
    picture: dict[str, object] = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    parts = [response("c1", "Two files."), {"text": "Flour."}, picture, {"text": "Yeast."}]
    session = read(answer("b", "", 0, {**call("c1"), "result": parts}))
    content: list[TextPart | ImagePart] = [
        text("Two files."),
        text("Flour."),
        image("aGk=", "image/png"),
        text("Yeast."),
    ]
    assert contents(session)[1:] == [(tool_result("c1", content),)]


def test_thoughts_calls_and_results_among_the_parts_are_read(read: Read) -> None:
    thought = {"text": "Read it.", "thought": True, "thoughtSignature": "c2ln"}
    nameless = {"functionCall": {"name": "ls", "args": {}}, "thoughtSignature": "c2lnMg"}
    failed: dict[str, object] = {"functionResponse": {"name": "ls", "response": {"error": "no"}}}
    responses = response_message("r", response("c1", "Flour."), failed)
    session = read(answer("b", [thought, function_call("c1"), nameless]), responses)
    first, second, third = session.messages
    assert first.content[:2] == (thinking("Read it.", signature="c2ln"), TOOL_USE)
    (generated,) = (part.tool_use for part in first.content if isinstance(part, ToolUsePart) and part != TOOL_USE)
    assert (generated.name, generated.signature) == ("ls", "c2lnMg")
    assert second == Message("tool", (tool_result("c1", "Flour."),), tool_name="read_file")
    assert third == Message("tool", (tool_result(generated.id, "no", is_error=True),), tool_name="ls")


def test_a_file_that_is_not_an_image_becomes_text(read: Read) -> None:
    def inline(media_type: str) -> dict[str, object]:
        return {"inlineData": {"mimeType": media_type, "data": "aGk="}}

    content: list[object] = [{"text": "Look."}, inline("image/png"), inline("application/pdf")]
    content += [
        {"fileData": {"fileUri": "gs://a/b.mp4", "mimeType": "video/mp4"}},
        {"fileData": {"fileUri": "gs://a/b.png"}},
    ]
    record = {**call("c1"), "result": [response("c1", "It was read."), inline("audio/wav")]}
    prompted: dict[str, object] = {"id": "m1", "type": "user", "content": content}
    session = read(prompted, answer("m2", "", 0, record))
    prompt, _, results = contents(session)
    picture, film, other = (
        image("aGk=", "image/png"),
        text("[file: gs://a/b.mp4]"),
        image("gs://a/b.png", "image/png", kind="url"),
    )
    assert prompt == (text("Look."), picture, text("[file: application/pdf]"), film, other)
    assert results == (tool_result("c1", "It was read.\n[file: audio/wav]"),)


def test_a_result_comes_before_the_text_beside_it(read: Read) -> None:
    both = response_message("r", response("c1", "Flour."), {"text": "Go on."})
    session = read(answer("b", [function_call("c1")]), both)
    assert contents(session) == [(TOOL_USE,), (tool_result("c1", "Flour."),), (text("Go on."),)]
    assert session.entries[-1].id == "r"


def test_calls_of_messages_without_ids_get_distinct_ids(tmp_path: Path, read_sessions: ReadSessions) -> None:
    nameless = {"type": "gemini", "content": "", "toolCalls": [{"name": "ls", "status": "success", "result": "x"}]}
    path = tmp_path / "s.json"
    path.write_text(json.dumps({**HEAD, "messages": [nameless, nameless]}))
    (session,) = read_sessions(path)
    calls = [part.tool_use.id for each in session.messages for part in each.content if isinstance(part, ToolUsePart)]
    assert len(set(calls)) == 2


SAVED = [
    {"role": "user", "parts": [{"text": "Read it."}]},
    {"role": "model", "parts": [{"functionCall": {"name": "read_file", "args": {"content": "x"}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "read_file", "response": {"output": "Flour."}}}]},
    {"parts": [{"text": "It is flour."}], "role": "model"},
]


@pytest.mark.parametrize("saved", [SAVED, {"history": SAVED, "authType": "none"}])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_conversation_is_read(tmp_path: Path, read_sessions: ReadSessions, saved: object, indent: int | None) -> None:
    path = tmp_path / "checkpoint-my%20bread.json"
    path.write_text(json.dumps(saved, indent=indent))
    (session,) = read_sessions(path)
    assert session.header.title == "my bread"
    assert session.roles == ["user", "assistant", "tool", "assistant"]
    (called,) = (part for part in session.messages[1].content if isinstance(part, ToolUsePart))
    (answered,) = (part for part in session.messages[2].content if isinstance(part, ToolResultPart))
    assert (answered.tool_result.tool_use_id, answered.tool_result.content) == (called.tool_use.id, "Flour.")
    assert plain_text(session.messages[3].content) == "It is flour."
    assert (session.messages[3].provider, session.messages[3].model) == ("google", None)
    assert (session.codes(), read_sessions(path, "gemini")) == ([], [session])


def test_an_invalid_message_of_a_saved_conversation_is_reported(tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = tmp_path / "checkpoint-a.json"
    path.write_text(json.dumps({"history": [*SAVED[:1], {"role": "user"}, 5, *SAVED[3:]]}))
    (session,) = read_sessions(path)
    assert (session.roles, session.codes()) == (["user", "assistant"], ["damaged", "damaged"])


@pytest.mark.parametrize(
    "other",
    [
        {"name": "bakery", "version": "1.0.0"},
        {"history": [{"type": "user", "text": "hi"}], "clientHistory": SAVED, "toolCall": {"name": "write_file"}},
        [{"sessionId": "s", "messageId": 0, "type": "user", "message": "hi"}],
        {"type": "session", "id": "s", "version": 3},
        {"messages": [{"role": "user", "content": "hi"}]},
        [],
        5,
    ],
)
@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_content_that_is_not_a_session_is_refused(
    tmp_path: Path, read_sessions: ReadSessions, other: object, suffix: str
) -> None:
    path = tmp_path / f"s.{suffix}"
    path.write_text(json.dumps(other) + "\n")
    with pytest.raises(ForeignFormatError, match="nothing of a Gemini CLI session"):
        read_sessions(path, "gemini")
    with pytest.raises(ForeignFormatError):
        read_sessions(path.parent, "gemini")


def test_a_subagents_session_names_its_parent_and_project(tmp_path: Path, read_sessions: ReadSessions) -> None:
    chats = tmp_path / "bakery" / "chats"
    (chats / "g-1").mkdir(parents=True)
    (chats.parent / ".project_root").write_text("/work/bakery\n")
    log(chats / "session-1.jsonl", user("a"))
    log(chats / "g-1" / "g-2.jsonl", {"sessionId": "g-2", "kind": "subagent"}, user("b"))
    main, started = (session.header for session in read_sessions(tmp_path))
    assert (main.id, main.parent_session, main.cwd) == ("g-1", None, "/work/bakery")
    assert (started.id, started.parent_session, started.cwd) == ("g-2", "g-1", "/work/bakery")


def context(files: str) -> dict[str, object]:
    words = "This is the Gemini CLI. We are setting up the context for our chat."
    return {
        "id": "own",
        "type": "user",
        "content": [{"text": f"<session_context>\n{words}\n{files}\n</session_context>"}],
    }


def test_what_the_program_puts_before_a_resumed_history_makes_no_branch(read: Read) -> None:
    said = [user("a"), answer("b", "Done.")]
    for begun in ([], [context("one.md")]):
        again: list[dict[str, object]] = [{"$set": {"messages": [context("one.md two.md"), *said]}}, user("c")]
        session = read(*begun, *said, *again)
        texts = [plain_text(each.message.content) for each in session.entries if isinstance(each, MessageEntry)]
        assert [each for each in texts if "Gemini" not in each] == ["a", "Done.", "c"]
        assert len(texts) == len(begun) + 3


def test_a_file_only_begun_to_resume_another_one_is_no_session(read_sessions: ReadSessions, tmp_path: Path) -> None:
    begun = log(tmp_path / "session-2.jsonl", {"$set": {"messages": [context("one.md")]}})
    (alone,) = read_sessions(begun)
    assert len(alone.entries) == 1
    log(tmp_path / "session-1.jsonl", user("a"))
    assert read_sessions(begun) == []
