"""What is written for each program, what is said to be left out, and how what the program adds comes back."""

import json
import stat
from pathlib import Path
from typing import Any, Literal

import pytest

from treering import Message, Session, SessionHost, image, plain_text, text, thinking, tool_result, tool_use
from treering.entries import BashExecution, Content, ImagePart, MessageEntry, ToolResultPart
from treering.errors import EntryNotFound, InvalidInput, ProgramFailed, ReadOnly
from treering.formats.handing_over.claude_code import folder_of
from treering.formats.handing_over.targets import target_names
from treering.sessions import HandedOver

from .given import MODEL, PNG, WORDS, Answered, make_given, words_of

pytestmark = pytest.mark.usefixtures("takes_in")

LATER = "2030-01-01T00:00:0{}.000Z"
THOUGHTS_KEPT = frozenset({"opencode", "qwen"})


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def text_of(path: str | Path | None) -> str:
    return Path(path or "").read_text(encoding="utf-8")


def put(path: Path, words: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(words, encoding="utf-8")


def file_of(handed: HandedOver, home: Path) -> Path:
    """What was written for a program, or what it was given to take in."""
    return home / "taken" / f"{handed.id}.json" if handed.path is None else Path(handed.path)


def files_in(folder: Path) -> list[Path]:
    return sorted(each for each in folder.rglob("*") if each.is_file())


def added_lines(program: str, path: Path) -> list[dict[str, Any]]:
    """A prompt and its answer as a program appends them."""
    last = lines_of(path)[-1]
    if program == "claude-code":
        own = {name: last[name] for name in ("sessionId", "cwd", "version", "isSidechain")}
        answer = {
            "id": "msg_new",
            "role": "assistant",
            "model": "claude-oak",
            "content": [{"type": "text", "text": "N-two"}],
        }
        return [
            {**own, "type": "user", "uuid": "n1", "parentUuid": last["uuid"], "timestamp": LATER.format(1),
             "message": {"role": "user", "content": "N-one"}},
            {**own, "type": "assistant", "uuid": "n2", "parentUuid": "n1", "timestamp": LATER.format(2),
             "message": answer},
        ]  # fmt: skip
    if program == "codex":
        said = [("user", "input_text", "N-one"), ("assistant", "output_text", "N-two")]
        return [
            {"timestamp": LATER.format(number), "type": "response_item",
             "payload": {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}}
            for number, (role, kind, words) in enumerate(said)
        ]  # fmt: skip
    if program == "pi":
        own_lines: list[tuple[str, str, object]] = [("n1", last["id"], {"role": "user", "content": "N-one"})]
        own_lines += [("n2", "n1", {**last["message"], "content": [{"type": "text", "text": "N-two"}]})]
        return [
            {"type": "message", "id": own_id, "parentId": parent, "timestamp": LATER.format(1), "message": message}
            for own_id, parent, message in own_lines
        ]
    if program == "qwen":
        own = {name: last[name] for name in ("sessionId", "cwd", "version")}
        links = [("system", "n0", last["uuid"]), ("user", "n1", "n0"), ("assistant", "n2", "n1")]
        holds: list[dict[str, Any]] = [{"subtype": "ui_telemetry", "systemPayload": {}}]
        holds += [
            {"message": {"role": role, "parts": [{"text": words}]}}
            for role, words in (("user", "N-one"), ("model", "N-two"))
        ]
        return [
            {"uuid": uuid, "parentUuid": parent, "timestamp": LATER.format(1), "type": kind, **own, **held}
            for (kind, uuid, parent), held in zip(links, holds, strict=True)
        ]
    assert program == "gemini", program
    context = (
        "<session_context>\nThis is the Gemini CLI. We are setting up the context for our chat.\n</session_context>"
    )
    preamble = {"id": "own", "timestamp": LATER.format(0), "type": "user", "content": [{"text": context}]}
    return [
        {"$set": {"messages": [preamble, *lines_of(path)[1:]]}},
        {"id": "n1", "timestamp": LATER.format(1), "type": "user", "content": [{"text": "N-one"}]},
        {"id": "n2", "timestamp": LATER.format(2), "type": "gemini", "content": "N-two"},
    ]


def go_on(program: str, path: Path) -> None:
    """Do what a program does when it goes on with a session."""
    if program != "opencode":
        append_lines(path, added_lines(program, path))
        return
    document = json.loads(path.read_bytes())
    last = document["messages"][-1]["info"]
    for number, (role, words) in enumerate((("user", "N-one"), ("assistant", "N-two"))):
        message = f"msg_{path.stem}_new_{number}"
        info = {**last, "id": message, "role": role, "time": {"created": 1_900_000_000_000 + number}}
        part = {"id": f"prt_{path.stem}_new_{number}", "messageID": message, "type": "text", "text": words}
        document["messages"].append({"info": info, "parts": [part]})
    path.write_text(json.dumps(document))


def append_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


async def said_below(session: Session, entry_id: str) -> list[str]:
    """The texts of the entries below an entry, down to the leaf."""
    path = session.path()
    messages = [await session.entry(each) for each in path[path.index(entry_id) + 1 :]]
    return [plain_text(each.message.content) for each in messages if isinstance(each, MessageEntry)]


@pytest.mark.parametrize("program", target_names())
async def test_a_path_is_written_whole_in_order_alone(program: str, tmp_path: Path, home: Path, project: Path) -> None:
    async with SessionHost(tmp_path / "root") as host:
        session = await make_given(host, str(project))
        planned = await session.hand_over(program, dry_run=True)
        assert files_in(home) == []
        before = len(await session.entries())
        handed = await session.hand_over(program)
        assert (handed.left_out, planned.id, planned.path, planned.command) == (planned.left_out, None, None, None)
        assert len(await session.entries()) == before + 1
        assert session.path()[-1] == handed_leaf(await session.entries())
    path = file_of(handed, home)
    assert handed.cwd == str(project)
    assert handed.id is not None
    assert handed.id in (handed.command or "")
    if handed.path is not None:
        check_file(path)
    assert [each for each in files_in(home) if each != path and each.name != ".project_root"] == []
    left_out = [] if program in THOUGHTS_KEPT else ["W-thought"]
    assert [(each.kind, each.text) for each in handed.left_out] == [("thinking", words) for words in left_out]
    lines = lines_of(path)
    for line in lines:
        line.pop("toolCallResult", None)  # what Qwen Code shows of a result
    said = "".join(json.dumps(line, ensure_ascii=False) for line in lines if line.get("type") != "event_msg")
    expected = [word for word in WORDS if word not in left_out]
    if program == "opencode":  # a call and its result are one, and a title comes before all
        expected[9:12] = ["W-left", "W-oak", "W-right"]
        expected.insert(0, "W-first")
    assert words_of(said) == expected
    assert said.count(PNG) == 1
    holder = lines[0]["info"]["metadata"] if program == "opencode" else lines[0]
    assert holder["treering"] == {"session": "given", "id": handed.id}


def check_file(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes().endswith(b"}\n")


def handed_leaf(entries: list[Any]) -> str:
    (record,) = [each for each in entries if each.type == "custom"]
    assert record.aside
    leaf: str = record.custom.data["leaf_id"]
    assert record.parent_id == leaf
    return leaf


@pytest.mark.feature("A-37")
@pytest.mark.parametrize("program", target_names())
async def test_what_a_program_adds_comes_back_below_what_it_was_given_once(
    program: str, tmp_path: Path, home: Path, project: Path
) -> None:
    async with SessionHost(tmp_path / "root") as host:
        session = await make_given(host)
        leaf = session.path()[-1]
        first, second = [await session.hand_over(program, cwd=project) for _ in range(2)]
        for handed in (first, second):
            go_on(program, file_of(handed, home))
        (report,) = await host.import_sessions(file_of(first, home))
        assert (report.id, report.existed) == ("given", True)
        assert await said_below(session, leaf) == ["N-one", "N-two"]
        went_on = session.path()[-1]
        reports = await host.import_sessions(home)  # both, the first one again
        assert {each.id for each in reports} == {"given"}
        assert session.path()[-1] == went_on  # the second one is a branch, since the session has gone on
        assert len([each for each in await session.entries() if "N-one" in str(each)]) == 2
        added = len(await session.entries())
        await host.import_sessions(home)
        assert len(await session.entries()) == added
        assert words_of(str((await session.context()).messages))[-1] == "W-answer"
    async with SessionHost(tmp_path / "other") as host:  # which has no record
        (report,) = await host.import_sessions(file_of(first, home))
        assert (report.id, report.existed) == (first.id, False)


@pytest.mark.feature("A-37")
@pytest.mark.parametrize("dialect", ["pi", "omp"])
async def test_a_session_that_is_a_file_of_pi_gets_back_what_another_program_wrote(
    dialect: Literal["pi", "omp"], tmp_path: Path, home: Path, project: Path
) -> None:
    async with SessionHost(tmp_path / "root", dialect=dialect) as host:
        session = await host.create()
        await session.append_message("user", "W-first")
        await session.append_message("assistant", "W-look", **MODEL)
        handed = await session.hand_over("claude-code", cwd=project)
        path = Path(handed.path or "")
        last = lines_of(path)[-1]
        both: list[dict[str, object]] = [
            {"type": "tool_use", "id": each, "name": "Bash", "input": {}} for each in ("x", "y")
        ]
        results = [{"type": "tool_result", "tool_use_id": each, "content": f"R-{each}"} for each in ("x", "y")]
        said = [("assistant", both), ("user", [*results, {"type": "text", "text": "N-words"}])]
        append_lines(path, added_lines("claude-code", path))
        for number, (role, content) in enumerate(said, 3):
            place = {"uuid": f"n{number}", "parentUuid": f"n{number - 1}", "timestamp": LATER.format(number)}
            message = {"role": role, "content": content, "id": f"msg_{number}", "model": "claude-oak"}
            append_lines(path, [{**last, **place, "type": role, "message": message}])
        for added in (6, 0):
            (report,) = await host.import_sessions(path)
            assert (report.id, report.existed, report.added) == (session.id, True, added)
        messages = [each.message for each in await session.entries() if isinstance(each, MessageEntry)]
        assert [each.role for each in messages[2:]] == ["user", "assistant", "assistant", "tool", "tool", "user"]
        assert session.path()[-1] == (await session.entries())[-1].id


async def test_what_no_program_is_given_is_listed(tmp_path: Path, home: Path, project: Path) -> None:
    async with SessionHost(tmp_path / "root") as host:
        session = await host.create()
        await session.append_session_info("Rings")  # else the title would be of the first words
        await session.append_message("user", "W-old")
        kept = await session.append_message("assistant", [thinking("W-deep"), text("W-kept")], **MODEL)
        await session.append_compaction("W-summary", kept, 100)
        await session.append(Message("bashExecution", bash=BashExecution("W-secret", "", 0, exclude_from_context=True)))
        await session.append_message("tool", [tool_result("never", "W-orphan")])
        await session.append_message("tool", [tool_result("never", [image("aGk=", "image/png")])])
        await session.append_message("user", ["W-see", image("https://x.org/W-tree.png", "image/png", kind="url")])
        handed = {name: await session.hand_over(name, cwd=project) for name in target_names()}
        assert all(path.is_relative_to(home) for path in files_in(home))
    for name, each in handed.items():
        listed = {(one.kind, one.text) for one in each.left_out}
        expected = {("message before the summary", "W-old"), ("message that models are not shown", "W-secret")}
        expected |= {("message that models are not shown", each) for each in ("W-orphan", "[image image/png]")}
        expected |= set() if name in THOUGHTS_KEPT else {("thinking", "W-deep")}
        expected |= set() if name == "claude-code" else {("image", "https://x.org/W-tree.png")}
        assert listed == expected, name
        said = text_of(file_of(each, home))
        missing = {"W-old", "W-secret", "W-orphan", *(() if name in THOUGHTS_KEPT else ("W-deep",))}
        assert {word for word in ("W-summary", "W-kept", "W-see", *missing) if word not in said} == missing


async def test_a_turn_cut_off_and_ids_used_twice_are_made_whole(tmp_path: Path, home: Path, project: Path) -> None:
    async with SessionHost(tmp_path / "root") as host:
        session = await host.create()
        await session.append_message("assistant", [tool_use("x", "look", {}), tool_use("x|y", "look", {})])
        await session.append_message("tool", [tool_result("x", "one")])
        await session.append_message("assistant", [tool_use("x", "look", {})], model="claude-oak", provider="anthropic")
        handed = await session.hand_over("claude-code", cwd=project)
    first, *others = lines_of(Path(handed.path or ""))
    assert first["message"]["role"] == "user"  # no provider takes a conversation that an assistant begins
    parents = [line["parentUuid"] for line in (first, *others)]
    assert parents == [None, *(line["uuid"] for line in (first, *others))][:-1]
    calls = [each["id"] for line in others for each in line["message"]["content"] if each["type"] == "tool_use"]
    results = [each for line in others for each in line["message"]["content"] if each["type"] == "tool_result"]
    assert len({*calls}) == 3
    assert all(each.replace("_", "").isalnum() for each in calls)
    assert [each["tool_use_id"] for each in results] == calls
    assert [each.get("is_error", False) for each in results] == [False, True, True]
    assert len({line["message"]["id"] for line in others if line["type"] == "assistant"}) == 2
    assert [line["message"]["model"] for line in others if line["type"] == "assistant"][-1] == "claude-oak"


async def test_claude_gets_the_thinking_of_its_own_last_model(tmp_path: Path, home: Path, project: Path) -> None:
    own = Answered(model="claude-oak", provider="anthropic")
    async with SessionHost(tmp_path / "root") as host:
        session = await host.create()
        await session.append_message("user", "Go")
        older: list[Content] = [thinking("W-older", signature="s"), text("1")]
        await session.append_message("assistant", older, model="claude-elm", provider="anthropic")
        await session.append_message("assistant", [thinking("W-unsigned"), text("2")], **own)
        await session.append_message("assistant", [thinking("W-signed", signature="s"), text("3")], **own)
        handed = await session.hand_over("claude-code", cwd=project)
    assert [each.text for each in handed.left_out] == ["W-older", "W-unsigned"]
    assert words_of(text_of(handed.path)) == ["W-signed"]


async def test_what_cannot_be_handed_over_is_refused_before_a_write(tmp_path: Path, home: Path, project: Path) -> None:
    async with SessionHost(tmp_path / "root") as host:
        session = await host.create()
        question = await session.append_custom_entry("x", 1)
        for program in ("pi", "claude-code", "qwen"):
            with pytest.raises(InvalidInput, match="no message"):
                await session.hand_over(program, cwd=project)
            await session.append_message("user", " ")
        await session.append_message("user", "Hello")
        with pytest.raises(InvalidInput, match="no program"):
            await session.hand_over("emacs", cwd=project)
        with pytest.raises(InvalidInput, match="there is no folder"):
            await session.hand_over("pi", cwd=project / "missing")
        with pytest.raises(EntryNotFound):
            await session.hand_over("pi", leaf_id="missing", cwd=project)
        with pytest.raises(InvalidInput, match="no message"):
            await session.hand_over("pi", leaf_id=question, cwd=project)
        async with await host.load(session.id, read_only=True) as follower:
            with pytest.raises(ReadOnly):
                await follower.hand_over("pi", cwd=project)
            assert (await follower.hand_over("pi", cwd=project, dry_run=True)).left_out == ()
        assert len(await session.entries()) == 5
    assert files_in(home) == []


async def test_a_program_that_is_missing_or_refuses_a_session_is_named(
    tmp_path: Path, home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SessionHost(tmp_path / "root") as host:
        session = await host.create()
        await session.append_message("user", "Hello")
        put(project / "refuse", "")
        with pytest.raises(ProgramFailed, match=r"opencode did not take .* \(exit status 1\): the database is locked"):
            await session.hand_over("opencode", cwd=project)
        before = len(await session.entries())
        monkeypatch.setenv("PATH", "")
        with pytest.raises(ProgramFailed, match="install opencode"):
            await session.hand_over("opencode", cwd=project)
        assert len(await session.entries()) == before
    assert files_in(home) == []


async def test_gemini_keeps_to_the_folder_of_the_project_and_takes_none_of_another(
    tmp_path: Path, home: Path, project: Path
) -> None:
    async with SessionHost(tmp_path / "root") as host:
        session = await host.create()
        await session.append_message("user", "Hello")
        tmp = home / ".gemini" / "tmp"
        put(tmp / "w-rk-dir-x-y" / "theirs", "theirs")  # of a project that does not say its name
        paths = [Path((await session.hand_over("gemini", cwd=project)).path or "") for _ in range(2)]
        assert {each.parent for each in paths} == {tmp / "w-rk-dir-x-y-1" / "chats"}
        assert (tmp / "w-rk-dir-x-y-1" / ".project_root").read_text() == str(project)
        (home / ".gemini" / "projects.json").write_text(json.dumps({"projects": {str(project): "named"}}))
        assert Path((await session.hand_over("gemini", cwd=project)).path or "").parent == tmp / "named" / "chats"
    assert [each.read_text() for each in files_in(tmp / "w-rk-dir-x-y")] == ["theirs"]


async def test_gemini_is_not_given_what_it_says_anew(tmp_path: Path, home: Path, project: Path) -> None:
    async with SessionHost(tmp_path / "root") as host:
        session = await host.create()
        await session.append_message("user", "<session_context>W-where</session_context>")
        await session.append_message("user", "W-prompt <session_context>")
        handed = await session.hand_over("gemini", cwd=project)
    assert [(each.kind, words_of(each.text)) for each in handed.left_out] == [
        ("what the program says anew", ["W-where"])
    ]
    assert words_of(text_of(handed.path)) == ["W-prompt"]


def test_claude_names_a_folder_by_units_of_utf_16_and_cuts_long_names() -> None:
    assert folder_of("/tmp/wörk.dir_x y/🌳") == "-tmp-w-rk-dir-x-y---"
    long = folder_of("/" + "a" * 250)
    assert long == folder_of("/" + "a" * 250)
    assert long.startswith("-" + "a" * 199 + "-")
    assert len(folder_of("/" + "a" * 199)) == 200


async def test_images_in_results_are_kept_in_the_result_or_beside_it(tmp_path: Path, home: Path, project: Path) -> None:
    async with SessionHost(tmp_path / "root") as host:
        session = await host.create()
        await session.append_message("user", "Look")
        await session.append_message("assistant", [tool_use("a", "look", {})], **MODEL)
        await session.append_message("tool", [tool_result("a", [text("W-seen"), image(PNG, "image/png")])])
        handed = [await session.hand_over(name, cwd=project) for name in target_names()]
    for each in handed:
        assert text_of(file_of(each, home)).count(PNG) == 1, each.program
        assert each.left_out == (), each.program
    async with SessionHost(tmp_path / "other") as host:
        for each in handed:
            (report,) = await host.import_sessions(file_of(each, home))
            async with await host.load(report.id) as session:
                parts = [part for one in await session.all_messages() for part in one.content]
                within = [part.tool_result.content for part in parts if isinstance(part, ToolResultPart)]
                assert len([one for one in (*parts, *within[0]) if isinstance(one, ImagePart)]) == 1, each.program
