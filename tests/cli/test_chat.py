"""`treering chat` without a terminal: where it begins, what lines and slash commands do, and one answer at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from click.testing import CliRunner, Result

from treering import (
    CompactionEntry,
    InvalidInput,
    Message,
    MessageEntry,
    SummaryRequest,
    SyncHost,
    message,
    plain_text,
)
from treering.cli import main
from treering.cli.chat.models import Models, summarizer_for
from treering.cli.chat.registry import all_commands
from treering.cli.chat.slash import Slashes, slash
from treering.models.echo import EchoModel
from treering.projections.tokens import ByteEstimator

Chat: TypeAlias = Callable[..., Result]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the command runs."""
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("TREERING_MODEL", "TREERING_BASE_URL", "TREERING_WINDOW", "TREERING_API_KEY", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def chat(root: Path, project: Path) -> Chat:
    """Run the command within this process; each of `lines` is a line of its input."""

    def run(*args: str, lines: tuple[str, ...] = ()) -> Result:
        told = "".join(f"{line}\n" for line in lines)
        result = CliRunner().invoke(main, ["chat", "--root", str(root), *args], input=told)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def host(root: Path) -> Iterator[SyncHost]:
    with SyncHost(root) as host:
        yield host


def made(root: Path, name: str, project: Path, *said: str) -> None:
    """Make a session in which the user said this and the model said so too."""
    with SyncHost(root) as host:
        session = host.create(name, cwd=project)
        for each in said:
            session.append_message("user", each)
            session.append_message("assistant", f"{each}, yes")


def loaded(root: Path, name: str) -> list[str]:
    """Return what was said in a session, as its context shows it."""
    with SyncHost(root) as host:
        return told(host.load(name, read_only=True).messages())


def told(messages: list[Message]) -> list[str]:
    return [f"{each.role}: {plain_text(each.content)}" for each in messages]


def files(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.glob("*.jsonl")}


# -- which session it begins in


@pytest.mark.feature("N-108")
@pytest.mark.parametrize("flag", ["-c", "--continue"])
def test_continuing_resumes_the_latest_session_of_this_project(
    chat: Chat, root: Path, project: Path, tmp_path: Path, flag: str
) -> None:
    made(root, "older", project, "Old")
    made(root, "latest", project, "Recent")
    made(root, "elsewhere", tmp_path / "other", "Newest of all")
    result = chat(flag, lines=("And now?",))
    assert (result.exit_code, result.stdout) == (0, "(echo, 3 messages) And now?\n")
    said = ["user: Recent", "assistant: Recent, yes", "user: And now?", "assistant: (echo, 3 messages) And now?"]
    assert loaded(root, "latest") == said
    assert len(files(root)) == 3


def test_continuing_where_nothing_is_begins_a_new_session(chat: Chat, root: Path) -> None:
    result = chat("-c", lines=("Hello",))
    assert result.stdout == "(echo, 1 message) Hello\n"
    assert result.stderr == "this project has no session yet: started a new one\n"
    assert len(files(root)) == 1


@pytest.mark.feature("N-109")
@pytest.mark.parametrize("flag", ["-r", "--resume"])
@pytest.mark.parametrize("given", ["abc-1", "abc", "Trees"])
def test_resuming_by_id_by_its_beginning_or_by_name(
    chat: Chat, root: Path, project: Path, tmp_path: Path, flag: str, given: str
) -> None:
    made(root, "abc-1", tmp_path / "other", "Hello")  # of whatever project
    made(root, "abd-2", project, "Bye")
    with SyncHost(root) as host:
        host.load("abc-1").set_title("Trees")
    assert chat(flag, given, lines=("More",)).stdout == "(echo, 3 messages) More\n"
    assert len(loaded(root, "abc-1")) == 4
    assert len(loaded(root, "abd-2")) == 2


@pytest.mark.feature("N-109")
def test_a_beginning_that_means_several_resumes_none(chat: Chat, root: Path, project: Path) -> None:
    made(root, "abc-1", project, "Hello")
    made(root, "abd-2", project, "Bye")
    before = files(root)
    for given, why in (("ab", "abc-1"), ("zzz", "zzz")):
        result = chat("-r", given, lines=("More",))
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith("treering: ")
        assert why in result.stderr
        assert result.stderr.count("\n") == 1
    assert files(root) == before


def test_an_echo_does_not_go_on_unnoticed_where_a_model_answered(
    chat: Chat, root: Path, host: SyncHost, project: Path
) -> None:
    with host.create("abc-1", cwd=project) as session:
        session.append_message("user", "Fix the door")
        session.append_message("assistant", "Done.", provider="anthropic", model="claude-sonnet-4-5")
        session.passivate()
    before = files(root)
    for args in (("-r", "abc-1"), ("-c",)):
        result = chat(*args, "-p", "And now?")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "anthropic/claude-sonnet-4-5 answered in this session before: choose a model" in result.stderr
        assert files(root) == before
    told = chat("-r", "abc-1", lines=("And now?",))
    assert told.exit_code == 0
    assert "anthropic/claude-sonnet-4-5 answered in this session before; now the echo does" in told.stderr
    chosen = chat("-r", "abc-1", "--model", "echo", "-p", "And now?")
    assert (chosen.exit_code, chosen.stderr) == (0, "")


@pytest.mark.feature("N-110")
def test_resuming_without_an_id_and_without_a_terminal_lists(chat: Chat, root: Path, project: Path) -> None:
    made(root, "abc-1", project, "Fix the door")
    made(root, "abd-2", project, "Paint it")
    before = files(root)
    result = chat("-r", lines=("More",))
    assert result.exit_code == 2
    first, second = result.stdout.splitlines()
    assert [word in first for word in ("Paint it", "abd-2", "2 messages")] == [True] * 3
    assert [word in second for word in ("Fix the door", "abc-1", "2 messages")] == [True] * 3
    assert result.stderr == "treering: there is no terminal to choose on: name one of these, as -r SESSION\n"
    assert files(root) == before


@pytest.mark.feature("N-111")
@pytest.mark.parametrize("flags", [("-n",), ("--new",), ()])
def test_a_new_session_keeps_the_old_one(chat: Chat, root: Path, project: Path, flags: tuple[str, ...]) -> None:
    made(root, "old", project, "Hello")
    before = files(root)
    assert chat(*flags, lines=("Afresh",)).stdout == "(echo, 1 message) Afresh\n"
    after = files(root)
    assert after.pop("old.jsonl") == before["old.jsonl"]
    assert len(after) == 1
    assert chat("-c", lines=("On",)).stdout == "(echo, 3 messages) On\n"  # the new one is the latest now


@pytest.mark.feature("N-121")
@pytest.mark.parametrize(
    ("args", "status", "why"),
    [
        (("-c", "-n"), 2, "-c, -r and -n exclude each other"),
        (("-c", "-r", "old"), 2, "-c, -r and -n exclude each other"),
        (("--no-such-flag",), 2, "No such option"),
        (("--json",), 2, "--json requires -p"),
        (("-c", "--window", "none"), 2, "not a valid integer"),
        (("-c", "--base-url", "http://127.0.0.1:9/v1"), 2, "--base-url requires --model"),
        (("--model", "openai:m", "--base-url", "notaurl"), 2, "'notaurl' is not the address of a server"),
        (("-c", "-p", "  "), 2, "the prompt of -p is empty"),
        (("-c", "--model", "nobody:x"), 1, "unknown model 'nobody:x'"),
    ],
)
def test_the_command_line_is_read_before_any_session_is_opened(
    chat: Chat, root: Path, project: Path, args: tuple[str, ...], status: int, why: str
) -> None:
    result = chat(*args, lines=("Hello",))
    assert (result.exit_code, result.stdout) == (status, "")
    assert why in result.stderr
    assert not root.exists()


def test_what_is_talked_in_becomes_the_current_session(chat: Chat, root: Path, project: Path) -> None:
    made(root, "abc-1", project, "Hello")
    with SyncHost(root) as host:
        host.set_current_session(project, "abc-1")
    chat(lines=("/help",))  # nothing is said in this one
    assert chat("-c", lines=("Here",)).stdout == "(echo, 3 messages) Here\n"
    chat(lines=("Afresh",))
    assert chat("-c", lines=("On",)).stdout == "(echo, 3 messages) On\n"
    chat("-c", lines=("/session archive",))
    assert chat("-c", lines=("Back",)).stdout == "(echo, 5 messages) Back\n"  # not the one that was archived


def test_a_chat_in_which_nothing_is_said_leaves_no_file(chat: Chat, root: Path) -> None:
    assert chat(lines=("", "/help", "/session info", "/tree", "/debug context")).exit_code == 0
    assert files(root) == {}


def test_a_session_of_another_process_is_told_in_one_sentence(chat: Chat, root: Path, host: SyncHost) -> None:
    session = host.create("mine")
    session.append_message("user", "Hello")
    result = chat("-r", "mine", lines=("More",))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("treering: ")
    assert result.stderr.count("\n") == 1
    assert told(session.messages()) == ["user: Hello"]


# -- lines


def test_lines_that_go_on(chat: Chat, root: Path) -> None:
    result = chat(lines=("one \\", "two", "//slashed", "/exit", "never said"))
    assert result.stdout == "(echo, 1 message) one \ntwo\n(echo, 3 messages) /slashed\n"
    assert [line.split(" ", 1)[0] for line in loaded(root, "last")] == ["user:", "assistant:"] * 2


@pytest.mark.parametrize("line", ["/nope", "/", "/session", "/new york", "/sessions mine"])
def test_an_unknown_command_says_so_and_is_not_sent(chat: Chat, root: Path, line: str) -> None:
    result = chat(lines=(line,))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no command" in result.stderr
    assert "nothing was sent" in result.stderr
    assert files(root) == {}


def test_help_tells_of_every_command(chat: Chat) -> None:
    lines = chat(lines=("/help",)).stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == [each.usage for each in all_commands()]
    assert all(each.help.endswith(".") for each in all_commands())


def test_the_page_tells_of_every_command() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "chat.md").read_text(encoding="utf-8")
    rows = [f"| `{each.usage}` | {each.help} |" for each in all_commands()]
    assert [line for line in page.splitlines() if line.startswith("| `/")] == rows


def test_two_commands_of_one_name_are_refused() -> None:
    async def nothing(*_: object) -> None: ...

    command = slash("new", "", "Do nothing.")(nothing)
    with pytest.raises(InvalidInput, match="/new"):
        Slashes([command, command])


# -- one answer


def test_one_answer_as_json(chat: Chat, root: Path) -> None:
    result = chat("-p", "/etc/hosts is what?", "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, result.stderr, result.stdout.count("\n")) == (0, "", 1)
    assert told["text"] == "(echo, 1 message) /etc/hosts is what?"
    assert told["model"] == {"provider": "treering", "model_id": "echo"}
    assert told["stop_reason"] == "stop"
    assert told["usage"]["total_tokens"] > 0
    with SyncHost(root) as host:
        entry = host.load(told["session_id"], read_only=True).entry(told["entry_id"])
    assert isinstance(entry, MessageEntry)
    assert plain_text(entry.message.content) == told["text"]
    assert Path(told["file"]).is_file()


def test_one_question_from_stdin(chat: Chat) -> None:
    assert chat("-p", "-", lines=("two", "lines")).stdout == "(echo, 1 message) two\nlines\n"


@pytest.mark.parametrize("flags", [[], ["-p", "-"]])
@pytest.mark.parametrize("encoding", ["utf-8:strict", "utf-8:surrogateescape"])
def test_bytes_that_are_no_text_are_replaced(root: Path, project: Path, flags: list[str], encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "treering.cli", "chat", *flags],
        input=b"caf\xe9\n",
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().endswith("caf\ufffd\n")


# -- commands about sessions


@pytest.mark.feature("N-112", "N-113")
def test_the_sessions_of_this_project_and_of_all(chat: Chat, root: Path, project: Path, tmp_path: Path) -> None:
    made(root, "abc-1", project, "Fix the door")
    made(root, "elsewhere", tmp_path / "other", "Write a poem")
    here = chat(lines=("Hello", "/sessions")).stdout.splitlines()[1:]
    assert [("Hello" in line, "Fix the door" in line) for line in here] == [(True, False), (False, True)]
    assert here[0].startswith("* ")
    assert here[1].startswith("  ")
    assert "2 messages" in here[1]
    assert "abc-1" in here[1]
    everywhere = chat(lines=("/sessions all",)).stdout.splitlines()
    assert len(everywhere) == 3
    row = next(line for line in everywhere if "Write a poem" in line)
    assert "elsewhere" in row
    assert str(tmp_path / "other") in row


@pytest.mark.feature("N-114")
def test_what_is_known_of_a_session(chat: Chat, root: Path, project: Path) -> None:
    made(root, "abc-1", project, "Fix the door", "And the lock")
    shown = chat("-r", "abc-1", lines=("/rename Doors", "/session info")).stdout.splitlines()
    known = dict(line.split("  ", 1) for line in shown)
    known = {name: value.strip() for name, value in known.items()}
    assert known["name"] == "Doors"
    assert known["id"] == "abc-1"
    assert known["project"] == str(project)
    assert known["messages"].startswith("4: 2 by the user, 2 by the assistant")
    assert known["tokens"].startswith("about ")
    assert known["answers"] == "treering/echo"
    assert str(root / "abc-1.jsonl") in known["file"]
    assert known["created"].startswith("Today") or datetime.now(UTC).hour in (0, 23)


@pytest.mark.feature("N-115")
def test_exporting_as_markdown(chat: Chat, root: Path, project: Path) -> None:
    made(root, "abc-1", project, "Fix the door")
    result = chat("-r", "abc-1", lines=("/session export", "/session export out.md", "/session export out.md"))
    with SyncHost(root) as host:
        expected = host.load("abc-1", read_only=True).export("markdown")
    assert (project / "abc-1.md").read_bytes() == expected
    assert (project / "out.md").read_bytes() == expected
    assert b"Fix the door" in expected
    written, again, refused = result.stderr.splitlines()
    assert (written, again) == (f"written to {project / 'abc-1.md'}", f"written to {project / 'out.md'}")
    assert refused.startswith("treering: ")
    assert result.exit_code == 1  # the third was refused


@pytest.mark.feature("N-116")
def test_archiving_the_current_session(chat: Chat, root: Path, project: Path) -> None:
    made(root, "abc-1", project, "Fix the door")
    result = chat("-r", "abc-1", lines=("/session archive", "Afresh", "/sessions"))
    assert result.stderr == "archived session abc-1; started a new one\n"
    answer, *rows = result.stdout.splitlines()
    assert answer == "(echo, 1 message) Afresh"
    assert len(rows) == 1
    with SyncHost(root) as host:
        assert [row.id for row in host.list_sessions(status="archived")] == ["abc-1"]
        assert told(host.load("abc-1", read_only=True).messages()) == [
            "user: Fix the door",
            "assistant: Fix the door, yes",
        ]


def test_going_to_another_session_and_to_a_new_one(chat: Chat, root: Path, project: Path) -> None:
    made(root, "abc-1", project, "Fix the door")
    result = chat(lines=("Here", "/resume abc", "There", "/new", "Afresh", "/resume nobody", "Still here", "/resume"))
    assert result.stdout.splitlines() == [
        "(echo, 1 message) Here",
        "> Fix the door",
        "Fix the door, yes",
        "",
        "(echo, 3 messages) There",
        "(echo, 1 message) Afresh",
        "(echo, 3 messages) Still here",
    ]
    assert "'nobody'" in result.stderr
    assert "there is no terminal to choose on" in result.stderr
    assert loaded(root, "abc-1")[2] == "user: There"
    assert len(files(root)) == 3


# -- commands about the tree


def entries(root: Path) -> list[Any]:
    with SyncHost(root) as host:
        return host.load("last", read_only=True).entries()


def test_an_answer_made_anew_and_another_branch(chat: Chat, root: Path) -> None:
    chat(lines=("One", "/label . first", "Two", "/retry"))
    one, answer, label, two, before, after = entries(root)
    assert (before.parent_id, after.parent_id) == (two.id, two.id)
    result = chat("-c", lines=("/label", "/branch first", "Three", "/tree", f"/label {one.id[:8]} start"))
    assert f"{answer.id[:8]}  first" in result.stdout
    assert "(echo, 3 messages) Three" in result.stdout
    assert "continuing from" in result.stderr
    three = entries(root)[6]
    assert (plain_text(three.message.content), three.parent_id) == ("Three", answer.id)
    assert sum("user" in line for line in result.stdout.splitlines()) == 3  # of the tree
    with SyncHost(root) as host:
        session = host.load("last", read_only=True)
        assert dict(session.labels()) == {one.id: "start", answer.id: "first"}
    assert label.type == "label"


def test_a_name_of_several_entries_means_none(chat: Chat, root: Path) -> None:
    result = chat(lines=("One", "/label . x", "Two", "/label . x", "/branch x"))
    assert "2 entries are labelled 'x'" in result.stderr
    assert result.exit_code == 1


def test_a_script_is_not_asked_for_a_summary_of_what_it_leaves(chat: Chat, root: Path) -> None:
    result = chat(lines=("One", "/label . first", "Two", "/branch first", "Three", "Four"))
    assert result.exit_code == 0
    assert "[y/N]" not in result.stdout + result.stderr
    assert "(2 messages left behind, without a summary)" in result.stderr
    said = [plain_text(each.message.content) for each in entries(root) if each.type == "message"]
    assert said[4::2] == ["Three", "Four"]
    assert all(each.type != "branch_summary" for each in entries(root))


@pytest.mark.parametrize("line", ["/branch", "/branch nobody", "/label . ", "/rename", "/compact --all", "/model x"])
def test_what_cannot_be_done_is_told_and_writes_nothing(chat: Chat, root: Path, project: Path, line: str) -> None:
    made(root, "abc-1", project, "Hello")
    before = files(root)
    result = chat("-r", "abc-1", lines=(line,))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("treering: ")
    assert files(root) == before


LONG = "It is about doors and windows and what is behind them. " * 12


@pytest.mark.feature("N-117", "N-118")
def test_compacting_first_tells_and_then_does(chat: Chat, root: Path, project: Path) -> None:
    made(root, "abc-1", project, LONG, LONG, "Short")
    before = files(root)
    result = chat("-r", "abc-1", lines=("/compact --keep-tokens 50",))
    assert files(root) == before
    with SyncHost(root) as host:
        session = host.load("abc-1", read_only=True)
        report = session.dry_compact(keep_tokens=50)
        kept = session.path()[4]
    assert report.first_kept_entry_id == kept
    cut, tokens, _ = result.stdout.splitlines()
    assert cut == f"would summarize 4 messages, and would keep 2 messages from {kept[:8]} on"
    assert tokens.startswith(f"tokens before {report.tokens_before:,}, after about ")
    assert result.stderr == "nothing was written: use /compact --apply to compact\n"

    applied = chat("-r", "abc-1", lines=("/compact --apply --keep-tokens 50",))
    assert applied.stdout.startswith(f"summarized 4 messages, and keeps 2 messages from {kept[:8]} on\n")
    assert applied.stderr == ""
    after = files(root)
    assert after["abc-1.jsonl"].startswith(before["abc-1.jsonl"])
    last = entries(root)[-1]
    assert isinstance(last, CompactionEntry)
    assert last.compaction.first_kept_entry_id == kept
    assert [line.split(":")[0] for line in loaded(root, "abc-1")] == ["compactionSummary", "user", "assistant"]
    assert chat("-r", "abc-1", lines=("/compact",)).stdout.startswith("nothing to compact: ")


def test_a_window_that_is_full_is_made_room_in(chat: Chat, root: Path) -> None:
    result = chat("--window", "600", lines=(LONG, LONG, "Short"))
    assert result.exit_code == 0
    assert "(compacted: a summary replaces " in result.stderr
    compaction = next(each for each in entries(root) if isinstance(each, CompactionEntry))
    assert "The conversation has " in compaction.compaction.summary
    assert "- user: It is about doors and windows" in compaction.compaction.summary


async def test_a_summary_without_a_model_is_as_long_as_asked_for() -> None:
    summarize, counter = summarizer_for(EchoModel()), ByteEstimator()
    said = tuple(message("user", f"{number}: {LONG}") for number in range(50))
    for target in (1, 60, 400):
        made = await summarize(SummaryRequest((), target, target, said))
        assert isinstance(made, str)
        assert made.startswith("The conversation has 50 messages.")
        assert counter.count(made) <= max(target, 10)
        assert ("- user: 49: It is about" in made) == (target > 1)


def test_the_session_knows_of_a_model_that_is_changed(chat: Chat, root: Path) -> None:
    pytest.importorskip("openai")
    result = chat(lines=("Hello", "/model", "/model ollama:qwen3:8b", "/model echo", "/usage"))
    assert result.stderr.splitlines() == [
        "treering/echo answers, with a window of 32768 tokens",
        "ollama/qwen3:8b answers, with an unknown window",
        "treering/echo answers, with a window of 32768 tokens",
    ]
    changes = [each.model_change for each in entries(root) if each.type == "model_change"]
    assert [(each.provider, each.model_id) for each in changes] == [("ollama", "qwen3:8b"), ("treering", "echo")]
    assert "all branches: " in result.stdout


def test_the_address_of_one_provider_is_not_given_to_another() -> None:
    pytest.importorskip("openai")
    models = Models("openai:a", "http://127.0.0.1:9/v1", "secret", 1000)
    assert models.named("openai:b").context_window == 1000
    other = models.named("ollama:b")
    assert other.context_window is None
    assert "secret" not in repr(vars(other))
    assert "127.0.0.1:9" not in repr(vars(other))


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="no file has such a name here")
def test_a_chat_goes_on_in_a_folder_whose_name_is_no_text(
    chat: Chat, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/d\xff")
    os.mkdir(folder)
    monkeypatch.chdir(folder)
    first, second = chat("-p", "hi"), chat("-c", "-p", "again")
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.stdout == "(echo, 1 message) hi\n"
    assert "is not valid Unicode: the session is stored without a directory" in first.stderr
    with SyncHost(root) as host:
        (row,) = host.list_sessions()
        assert (row.project, row.message_count) == (None, 4)
