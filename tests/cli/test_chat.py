"""`treering chat` without a terminal: which session it uses, lines, slash commands, and single answers."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from treering import InvalidInput, SyncHost, message, plain_text
from treering.cli.chat.models import Models, summarizer_for
from treering.cli.chat.slash import Slashes, slash
from treering.cli.chat.slash_commands import all_commands
from treering.contexts import SummaryRequest
from treering.entries import CompactionEntry
from treering.models.echo import EchoModel
from treering.projections.tokens import ByteEstimator

from .conftest import Cli


@pytest.fixture
def host(cli: Cli) -> Iterator[SyncHost]:
    with SyncHost(cli.root) as host:
        yield host


# -- which session is used


@pytest.mark.feature("N-108")
@pytest.mark.parametrize("flag", ["-c", "--continue"])
def test_continuing_resumes_the_latest_session_of_this_project(cli: Cli, tmp_path: Path, flag: str) -> None:
    cli.create("Old", session_id="older")
    cli.create("Recent", session_id="latest")
    cli.create("Newest of all", cwd=tmp_path / "other", session_id="elsewhere")
    result = cli.chat(flag, lines=("And now?",))
    assert (result.exit_code, result.stdout) == (0, "(echo, 3 messages) And now?\n")
    assert cli.message_lines("latest") == [
        "user: Recent",
        "assistant: About 'Recent': yes.",
        "user: And now?",
        "assistant: (echo, 3 messages) And now?",
    ]
    assert len(cli.files()) == 3


def test_continuing_without_a_session_starts_a_new_one(cli: Cli) -> None:
    result = cli.chat("-c", lines=("Hello",))
    assert result.stdout == "(echo, 1 message) Hello\n"
    assert result.stderr == "this project has no session yet: started a new one\n"
    assert len(cli.files()) == 1


@pytest.mark.feature("N-109")
@pytest.mark.parametrize("flag", ["-r", "--resume"])
@pytest.mark.parametrize("given", ["abc-1", "abc", "Trees"])
def test_a_session_is_resumed_by_id_beginning_or_name(cli: Cli, tmp_path: Path, flag: str, given: str) -> None:
    cli.create("Hello", cwd=tmp_path / "other", session_id="abc-1")  # of another project
    cli.create("Bye", session_id="abd-2")
    with SyncHost(cli.root) as host:
        host.load("abc-1").set_title("Trees")
    assert cli.chat(flag, given, lines=("More",)).stdout == "(echo, 3 messages) More\n"
    assert len(cli.message_lines("abc-1")) == 4
    assert len(cli.message_lines("abd-2")) == 2


@pytest.mark.feature("N-109")
def test_an_ambiguous_or_unknown_id_resumes_no_session(cli: Cli) -> None:
    cli.create("Hello", session_id="abc-1")
    cli.create("Bye", session_id="abd-2")
    before = cli.files()
    for given, why in (("ab", "abc-1"), ("zzz", "zzz")):
        error = cli.error("chat", "-r", given, typed="More\n")
        assert why in error
    assert cli.files() == before


def test_the_echo_continues_the_session_of_a_model_only_with_a_notice(cli: Cli, host: SyncHost) -> None:
    with host.create("abc-1", cwd=cli.project) as session:
        session.append_message("user", "Fix the door")
        session.append_message("assistant", "Done.", provider="anthropic", model="claude-sonnet-4-5")
        session.passivate()
    before = cli.files()
    for args in (("-r", "abc-1"), ("-c",)):
        result = cli.chat(*args, "-p", "And now?")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "anthropic/claude-sonnet-4-5 answered in this session before: choose a model" in result.stderr
        assert cli.files() == before
    warned = cli.chat("-r", "abc-1", lines=("And now?",))
    assert warned.exit_code == 0
    assert "anthropic/claude-sonnet-4-5 answered in this session before; now the echo does" in warned.stderr
    chosen = cli.chat("-r", "abc-1", "--model", "echo", "-p", "And now?")
    assert (chosen.exit_code, chosen.stderr) == (0, "")


@pytest.mark.feature("N-110")
def test_resuming_without_an_id_and_without_a_terminal_lists_the_sessions(cli: Cli) -> None:
    cli.create("Fix the door", session_id="abc-1")
    cli.create("Paint it", session_id="abd-2")
    before = cli.files()
    result = cli.chat("-r", lines=("More",))
    assert result.exit_code == 2
    first, second = result.stdout.splitlines()
    assert [word in first for word in ("Paint it", "abd-2", "2 messages")] == [True] * 3
    assert [word in second for word in ("Fix the door", "abc-1", "2 messages")] == [True] * 3
    assert result.stderr == "treering: there is no terminal to choose on: name one of these, as -r SESSION\n"
    assert cli.files() == before


@pytest.mark.feature("N-111")
@pytest.mark.parametrize("flags", [("-n",), ("--new",), ()])
def test_a_new_session_keeps_the_old_one(cli: Cli, flags: tuple[str, ...]) -> None:
    cli.create("Hello", session_id="old")
    before = cli.files()
    assert cli.chat(*flags, lines=("Afresh",)).stdout == "(echo, 1 message) Afresh\n"
    after = cli.files()
    assert after.pop("old.jsonl") == before["old.jsonl"]
    assert len(after) == 1
    assert cli.chat("-c", lines=("On",)).stdout == "(echo, 3 messages) On\n"  # the new one is now the latest


@pytest.mark.feature("N-121")
@pytest.mark.parametrize(
    ("args", "status", "why"),
    [
        (("-c", "-n"), 2, "-c, -r and -n exclude each other"),
        (("-c", "-r", "old"), 2, "-c, -r and -n exclude each other"),
        (("--no-such-flag",), 2, "No such option"),
        (("--json",), 2, "--json requires -p"),
        (("-c", "--window", "none"), 2, "not a whole number of 1 or more"),
        (("-c", "--base-url", "http://127.0.0.1:9/v1"), 2, "--base-url requires --model"),
        (("--model", "openai:m", "--base-url", "notaurl"), 2, "'notaurl' is not the address of a server"),
        (("-c", "-p", "  "), 2, "the prompt of -p is empty"),
        (("-c", "--model", "nobody:x"), 1, "unknown model 'nobody:x'"),
    ],
)
def test_a_wrong_command_line_is_refused_before_opening(cli: Cli, args: tuple[str, ...], status: int, why: str) -> None:
    result = cli.chat(*args, lines=("Hello",))
    assert (result.exit_code, result.stdout) == (status, "")
    assert why in result.stderr
    assert not cli.root.exists()


def test_the_session_of_a_chat_becomes_current_once_a_message_is_sent(cli: Cli) -> None:
    cli.create("Hello", session_id="abc-1")
    cli.lines("current", "abc-1")
    cli.chat(lines=("/help",))  # sends no message
    assert cli.chat("-c", lines=("Here",)).stdout == "(echo, 3 messages) Here\n"
    cli.chat(lines=("Afresh",))
    assert cli.chat("-c", lines=("On",)).stdout == "(echo, 3 messages) On\n"
    cli.chat("-c", lines=("/session archive",))
    assert cli.chat("-c", lines=("Back",)).stdout == "(echo, 5 messages) Back\n"  # not the one that was archived


def test_a_chat_without_a_message_writes_no_file(cli: Cli) -> None:
    assert cli.chat(lines=("", "/help", "/session info", "/tree", "/debug context")).exit_code == 0
    assert cli.files() == {}


def test_a_session_in_use_by_another_process_is_a_one_line_error(cli: Cli, host: SyncHost) -> None:
    session = host.create("mine")
    session.append_message("user", "Hello")
    cli.error("chat", "-r", "mine", typed="More\n")
    assert cli.message_lines("mine") == ["user: Hello"]


# -- input lines


def test_a_backslash_continues_a_line_and_two_slashes_escape_one(cli: Cli) -> None:
    result = cli.chat(lines=("one \\", "two", "//slashed", "/exit", "not sent"))
    assert result.stdout == "(echo, 1 message) one \ntwo\n(echo, 3 messages) /slashed\n"
    assert [line.split(" ", 1)[0] for line in cli.message_lines("last")] == ["user:", "assistant:"] * 2


@pytest.mark.parametrize("line", ["/nope", "/", "/session", "/new york", "/sessions mine"])
def test_an_unknown_slash_command_is_an_error_and_is_not_sent(cli: Cli, line: str) -> None:
    error = cli.error("chat", typed=f"{line}\n")
    assert "there is no command" in error
    assert "nothing was sent" in error
    assert cli.files() == {}


def test_help_lists_every_slash_command(cli: Cli) -> None:
    lines = cli.chat(lines=("/help",)).stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == [each.usage for each in all_commands()]
    assert all(each.help.endswith(".") for each in all_commands())


def test_the_page_about_chat_lists_every_slash_command() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "chat.md").read_text(encoding="utf-8")
    rows = [f"| `{each.usage}` | {each.help} |" for each in all_commands()]
    assert [line for line in page.splitlines() if line.startswith("| `/")] == rows


def test_two_slash_commands_with_the_same_name_are_refused() -> None:
    async def nothing(*_: object) -> None: ...

    command = slash("new", "", "Do nothing.")(nothing)
    with pytest.raises(InvalidInput, match="/new"):
        Slashes([command, command])


# -- single answers


def test_a_single_answer_can_be_printed_as_json(cli: Cli) -> None:
    result = cli.chat("-p", "/etc/hosts is what?", "--json")
    reply = json.loads(result.stdout)
    assert (result.exit_code, result.stderr, result.stdout.count("\n")) == (0, "", 1)
    assert reply["text"] == "(echo, 1 message) /etc/hosts is what?"
    assert reply["model"] == {"provider": "treering", "model_id": "echo"}
    assert reply["stop_reason"] == "stop"
    assert reply["usage"]["total_tokens"] > 0
    entry = cli.entries(reply["session_id"])[-1]
    assert (entry.type, entry.id) == ("message", reply["entry_id"])
    assert plain_text(entry.message.content) == reply["text"]
    assert Path(reply["file"]).is_file()
    assert cli.chat("-p", "-", lines=("two", "lines")).stdout == "(echo, 1 message) two\nlines\n"


@pytest.mark.parametrize(("flags", "encoding"), [([], "utf-8:strict"), (["-p", "-"], "utf-8:surrogateescape")])
def test_input_bytes_that_are_not_utf8_are_replaced(cli: Cli, flags: list[str], encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "treering.cli", "chat", *flags],
        input=b"caf\xe9\n",
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().endswith("caf\ufffd\n")


# -- slash commands about sessions


@pytest.mark.feature("N-112", "N-113")
def test_sessions_lists_those_of_this_project_or_of_all_projects(cli: Cli, tmp_path: Path) -> None:
    cli.create("Fix the door", session_id="abc-1")
    cli.create("Write a poem", cwd=tmp_path / "other", session_id="elsewhere")
    here = cli.chat(lines=("Hello", "/sessions")).stdout.splitlines()[1:]
    assert [("Hello" in line, "Fix the door" in line) for line in here] == [(True, False), (False, True)]
    assert here[0].startswith("* ")
    assert here[1].startswith("  ")
    assert "2 messages" in here[1]
    assert "abc-1" in here[1]
    everywhere = cli.chat(lines=("/sessions all",)).stdout.splitlines()
    assert len(everywhere) == 3
    row = next(line for line in everywhere if "Write a poem" in line)
    assert "elsewhere" in row
    assert str(tmp_path / "other") in row


@pytest.mark.feature("N-114")
def test_session_info_shows_name_project_counts_and_file(cli: Cli) -> None:
    cli.create("Fix the door", "And the lock", session_id="abc-1")
    shown = cli.chat("-r", "abc-1", lines=("/rename Doors", "/session info")).stdout.splitlines()
    known = dict(line.split("  ", 1) for line in shown)
    known = {name: value.strip() for name, value in known.items()}
    assert (known["name"], known["id"]) == ("Doors", "abc-1")
    assert known["project"] == str(cli.project)
    assert known["messages"].startswith("4: 2 by the user, 2 by the assistant")
    assert known["tokens"].startswith("about ")
    assert known["answers"] == "treering/echo"
    assert str(cli.root / "abc-1.jsonl") in known["file"]
    assert known["created"].startswith(("Today", "Yesterday"))  # midnight may pass meanwhile


@pytest.mark.feature("N-115")
def test_session_export_writes_markdown_and_replaces_no_file(cli: Cli) -> None:
    cli.create("Fix the door", session_id="abc-1")
    result = cli.chat("-r", "abc-1", lines=("/session export", "/session export out.md", "/session export out.md"))
    with SyncHost(cli.root) as host:
        expected = host.load("abc-1", read_only=True).export("markdown")
    assert (cli.project / "abc-1.md").read_bytes() == expected
    assert (cli.project / "out.md").read_bytes() == expected
    assert b"Fix the door" in expected
    written, again, refused = result.stderr.splitlines()
    assert (written, again) == (f"written to {cli.project / 'abc-1.md'}", f"written to {cli.project / 'out.md'}")
    assert refused.startswith("treering: ")
    assert result.exit_code == 1  # the third was refused


@pytest.mark.feature("N-116")
def test_session_archive_archives_the_session_and_starts_a_new_one(cli: Cli) -> None:
    cli.create("Fix the door", session_id="abc-1")
    result = cli.chat("-r", "abc-1", lines=("/session archive", "Afresh", "/sessions"))
    assert result.stderr == "archived session abc-1; started a new one\n"
    answer, *rows = result.stdout.splitlines()
    assert answer == "(echo, 1 message) Afresh"
    assert len(rows) == 1
    assert cli.ids("--archived") == ["abc-1"]
    assert cli.message_lines("abc-1") == ["user: Fix the door", "assistant: About 'Fix the door': yes."]


def test_resume_and_new_switch_to_another_session(cli: Cli) -> None:
    cli.create("Fix the door", session_id="abc-1")
    result = cli.chat(
        lines=("Here", "/resume abc", "There", "/new", "Afresh", "/resume nobody", "Still here", "/resume")
    )
    assert result.stdout.splitlines() == [
        "(echo, 1 message) Here",
        "> Fix the door",
        "About 'Fix the door': yes.",
        "",
        "(echo, 3 messages) There",
        "(echo, 1 message) Afresh",
        "(echo, 3 messages) Still here",
    ]
    assert "'nobody'" in result.stderr
    assert "there is no terminal to choose on" in result.stderr
    assert cli.message_lines("abc-1")[2] == "user: There"
    assert len(cli.files()) == 3


# -- slash commands about the tree


def test_retry_and_branch_append_to_other_branches(cli: Cli) -> None:
    cli.chat(lines=("One", "/label . first", "Two", "/retry"))
    one, answer, label, two, before, after = cli.entries()
    assert (before.parent_id, after.parent_id) == (two.id, two.id)
    result = cli.chat("-c", lines=("/label", "/branch first", "Three", "/tree", f"/label {one.id[:8]} start"))
    assert f"{answer.id[:8]}  first" in result.stdout
    assert "(echo, 3 messages) Three" in result.stdout
    assert "continuing from" in result.stderr
    three = cli.entries()[6]
    assert (plain_text(three.message.content), three.parent_id) == ("Three", answer.id)
    assert sum("user" in line for line in result.stdout.splitlines()) == 3  # lines of the tree
    with SyncHost(cli.root) as host:
        assert dict(host.load("last", read_only=True).labels()) == {one.id: "start", answer.id: "first"}
    assert label.type == "label"
    result = cli.chat("-c", lines=("/label . start", "/branch start"))
    assert ("2 entries are labelled 'start'" in result.stderr, result.exit_code) == (True, 1)


def test_without_a_terminal_a_branch_is_left_without_asking_for_a_summary(cli: Cli) -> None:
    result = cli.chat(lines=("One", "/label . first", "Two", "/branch first", "Three", "Four"))
    assert result.exit_code == 0
    assert "[y/N]" not in result.stdout + result.stderr
    assert "(2 messages left behind, without a summary)" in result.stderr
    texts = [plain_text(each.message.content) for each in cli.entries() if each.type == "message"]
    assert texts[4::2] == ["Three", "Four"]
    assert all(each.type != "branch_summary" for each in cli.entries())


@pytest.mark.parametrize("line", ["/branch", "/branch nobody", "/label . ", "/rename", "/compact --all", "/model x"])
def test_a_slash_command_that_fails_is_an_error_and_writes_nothing(cli: Cli, line: str) -> None:
    cli.create("Hello", session_id="abc-1")
    before = cli.files()
    cli.error("chat", "-r", "abc-1", typed=f"{line}\n")
    assert cli.files() == before


LONG = "It is about doors and windows and what is behind them. " * 12


@pytest.mark.feature("N-117", "N-118")
def test_compact_reports_first_and_compacts_with_apply(cli: Cli) -> None:
    cli.create(LONG, LONG, "Short", session_id="abc-1")
    before = cli.files()
    result = cli.chat("-r", "abc-1", lines=("/compact --keep-tokens 50",))
    assert cli.files() == before
    with SyncHost(cli.root) as host:
        session = host.load("abc-1", read_only=True)
        report = session.dry_compact(keep_tokens=50)
        kept = session.path()[4]
    assert report.first_kept_entry_id == kept
    cut, tokens, _ = result.stdout.splitlines()
    assert cut == f"would summarize 4 messages, and would keep 2 messages from {kept[:8]} on"
    assert tokens.startswith(f"tokens before {report.tokens_before:,}, after about ")
    assert result.stderr == "nothing was written: use /compact --apply to compact\n"
    applied = cli.chat("-r", "abc-1", lines=("/compact --apply --keep-tokens 50",))
    assert applied.stdout.startswith(f"summarized 4 messages, and keeps 2 messages from {kept[:8]} on\n")
    assert applied.stderr == ""
    assert cli.files()["abc-1.jsonl"].startswith(before["abc-1.jsonl"])
    last = cli.entries()[-1]
    assert isinstance(last, CompactionEntry)
    assert last.compaction.first_kept_entry_id == kept
    assert [line.split(":")[0] for line in cli.message_lines("abc-1")] == ["compactionSummary", "user", "assistant"]
    assert cli.chat("-r", "abc-1", lines=("/compact",)).stdout.startswith("nothing to compact: ")


def test_a_full_window_is_compacted_automatically(cli: Cli) -> None:
    result = cli.chat("--window", "600", lines=(LONG, LONG, "Short"))
    assert result.exit_code == 0
    assert "(compacted: a summary replaces " in result.stderr
    compaction = next(each for each in cli.entries() if isinstance(each, CompactionEntry))
    assert "The conversation has " in compaction.compaction.summary
    assert "- user: It is about doors and windows" in compaction.compaction.summary


async def test_a_summary_by_the_echo_is_at_most_as_long_as_requested() -> None:
    summarize, counter = summarizer_for(EchoModel()), ByteEstimator()
    conversation = tuple(message("user", f"{number}: {LONG}") for number in range(50))
    for target in (1, 60, 400):
        summary = await summarize(SummaryRequest((), target, target, conversation))
        assert isinstance(summary, str)
        assert summary.startswith("The conversation has 50 messages.")
        assert counter.count(summary) <= max(target, 10)
        assert ("- user: 49: It is about" in summary) == (target > 1)


def test_changing_the_model_appends_a_model_change(cli: Cli) -> None:
    pytest.importorskip("openai")
    result = cli.chat(lines=("Hello", "/model", "/model ollama:qwen3:8b", "/model echo", "/usage"))
    assert result.stderr.splitlines() == [
        "treering/echo answers, with a window of 32768 tokens",
        "ollama/qwen3:8b answers, with an unknown window",
        "treering/echo answers, with a window of 32768 tokens",
    ]
    changes = [each.model_change for each in cli.entries() if each.type == "model_change"]
    assert [(each.provider, each.model_id) for each in changes] == [("ollama", "qwen3:8b"), ("treering", "echo")]
    assert "all branches: " in result.stdout


def test_address_and_key_of_one_provider_are_not_used_for_another() -> None:
    pytest.importorskip("openai")
    models = Models("openai:a", "http://127.0.0.1:9/v1", "secret", 1000)
    assert models.named("openai:b").context_window == 1000
    other = models.named("ollama:b")
    assert other.context_window is None
    assert "secret" not in repr(vars(other))
    assert "127.0.0.1:9" not in repr(vars(other))


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="no file has such a name here")
def test_a_chat_works_in_a_folder_without_unicode(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/d\xff")
    os.mkdir(folder)
    monkeypatch.chdir(folder)
    first, second = cli.chat("-p", "hi"), cli.chat("-c", "-p", "again")
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.stdout == "(echo, 1 message) hi\n"
    assert "is not valid Unicode: the session is stored without a directory" in first.stderr
    with SyncHost(cli.root) as host:
        (row,) = host.list_sessions()
        assert (row.project, row.message_count) == (None, 4)
