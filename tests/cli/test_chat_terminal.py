"""`treering chat` at a terminal: typing, streamed answers, stopping them, leaving, and resuming."""

import signal
from importlib.util import find_spec

import pytest

from treering import SyncHost, plain_text
from treering.entries import BranchSummaryEntry
from treering.testing.model_server import ModelServer, Speech

from .conftest import Cli
from .terminal import Terminal

STOPPED = "(stopped; the partial answer is kept)"


def start_chat(cli: Cli, *args: str) -> Terminal:
    return cli.terminal("chat", *args, columns=100, lines=40)


def messages(cli: Cli) -> list[tuple[str, str, str | None]]:
    found = [each.message for each in cli.entries()]
    return [(each.role, plain_text(each.content), each.stop_reason) for each in found]


def test_a_conversation_with_paste_completion_and_slash_commands(cli: Cli) -> None:
    terminal = start_chat(cli)
    shown = terminal.until("Ctrl-D leaves\n>")
    assert shown == ["treering 0.1.0, treering/echo; /help lists the commands, Ctrl-D leaves", ">"]
    terminal.press("Hello\r")
    terminal.until("> Hello\n(echo, 1 message) Hello\n\n>")
    terminal.press("\x1b[200~two\nlines\x1b[201~\r")  # a paste, and Enter
    terminal.until("> two\nlines\n(echo, 3 messages) two\nlines\n\n>")
    terminal.press("/nope\r")
    terminal.until("treering: there is no command '/nope', and nothing was sent")
    terminal.press("/tree\r")
    shown = terminal.until("<- leaf\n>")
    assert [line[0] for line in shown[-5:]] == ["•", "•", "•", "•", ">"]
    terminal.press("/ses\t")
    terminal.until("> /session")
    terminal.press("\x03")
    terminal.until("(press Ctrl-C again, Ctrl-D, or type /exit to leave)\n>")
    assert terminal.leave() == 0
    assert terminal.lines[-1].startswith("resume with: treering chat -r ")
    assert terminal.settings == terminal.first_settings
    assert cli.message_lines("last") == [
        "user: Hello",
        "assistant: (echo, 1 message) Hello",
        "user: two\nlines",
        "assistant: (echo, 3 messages) two\nlines",
    ]


def test_a_backslash_begins_a_new_line_and_the_history_keeps_it(cli: Cli) -> None:
    terminal = start_chat(cli)
    terminal.until("Ctrl-D leaves\n>")
    terminal.press("one\\\rtwo\r")
    terminal.until("> one\ntwo\n(echo, 1 message) one\ntwo\n\n>")
    terminal.press("\x1b[A")  # up
    terminal.until("\n\n> one\ntwo")
    terminal.press("!\r")
    terminal.until("(echo, 3 messages) one\ntwo!\n\n>")
    assert terminal.leave() == 0
    assert [text for role, text, _ in messages(cli) if role == "user"] == ["one\ntwo", "one\ntwo!"]


@pytest.mark.feature("N-108")
@pytest.mark.skipif(find_spec("openai") is None, reason="the extra `openai` is not installed")
def test_a_stopped_answer_is_kept_and_the_chat_can_be_resumed(cli: Cli, server: ModelServer) -> None:
    model = ["--model", "openai:any", "--base-url", server.openai_url, "--system", "Be brief."]
    server.reply(Speech(text=["Once upon ", "a time"], hold_after=3))
    server.says("Well.")
    server.reply(Speech(text=["Never"], hold_after=2))
    terminal = start_chat(cli, *model)
    terminal.until("Ctrl-D leaves\n>")
    terminal.press("Tell a story\r")
    terminal.until("\nOnce upon a time")  # shown before the answer is complete
    terminal.press("\x03")
    terminal.until(f"\nOnce upon a time^C\n{STOPPED}\n>")
    assert server.gone.wait(60)
    terminal.press("Go on\r")
    terminal.until("Well.\n\n>")
    story = [
        ("user", "Tell a story", None),
        ("assistant", "Once upon a time", "aborted"),
        ("user", "Go on", None),
        ("assistant", "Well.", "stop"),
    ]
    assert messages(cli) == story
    terminal.press("Again\r")
    terminal.until("\nNever")
    terminal.press("\x03")
    terminal.until(f"\nNever^C\n{STOPPED}\n>")
    terminal.press("\x03")  # the second Ctrl-C in a row leaves
    assert terminal.wait() == 0
    assert terminal.lines[-1].startswith("resume with: treering chat -r ")
    story += [("user", "Again", None), ("assistant", "Never", "aborted")]
    assert messages(cli) == story

    server.says("I ", "am.")
    terminal = start_chat(cli, "-c", *model)
    shown = terminal.until("> Again\nNever\n\n>")
    at = shown.index("> Tell a story")
    assert "'Tell a story': 6 messages" in shown[at - 1]
    assert shown[at:] == ["> Tell a story", "Once upon a time", "", "> Go on", "Well.", "", "> Again", "Never", "", ">"]
    terminal.press("Who is there?\r")
    terminal.until("> Who is there?\nI am.\n\n>")
    assert terminal.leave() == 0
    sent = [[(each["role"], each["content"]) for each in request.body["messages"]] for request in server.requests]
    system = [("system", "Be brief.")]
    conversation = [(role, text) for role, text, _ in story]
    assert sent == [
        [*system, *conversation[:1]],
        [*system, *conversation[:3]],
        [*system, *conversation[:5]],
        [*system, *conversation, ("user", "Who is there?")],
    ]


def test_a_left_branch_gets_a_summary_if_the_user_wants_one(cli: Cli) -> None:
    with SyncHost(cli.root) as host:
        session = host.create("talk", cwd=cli.project)
        session.append_message("user", "One")
        first = session.append_message("assistant", "One, yes")
        for _ in range(3):
            session.append_message("user", "Once more. " * 60)
            session.append_message("assistant", "Once more, yes. " * 40)
    terminal = start_chat(cli, "-r", "talk")
    terminal.until("Once more, yes.\n\n>")
    terminal.press(f"/branch {first}\r")
    terminal.until("6 messages left behind: keep a summary of them? [y/N]")
    terminal.press("y\r")
    terminal.until("with a summary of 6 messages\n>")
    assert terminal.leave() == 0
    summary = cli.entries("talk")[-1]
    assert isinstance(summary, BranchSummaryEntry)
    assert summary.parent_id == first
    assert "The conversation has 6 messages" in summary.branch_summary.summary


@pytest.mark.feature("N-110")
def test_a_session_or_a_new_one_can_be_chosen_from_the_list(cli: Cli) -> None:
    for question in ("Fix the door", "Paint it"):
        cli.create(question)
    terminal = start_chat(cli, "-r")
    terminal.until("Fix the door", "Paint it", "[q] Quit")
    terminal.press("\r")
    chosen = terminal.until("yes.\n\n>", without="Quit")
    assert sum("> Fix the door" in line or "> Paint it" in line for line in chosen) == 1
    terminal.press("/resume\r")
    terminal.until("[q] Quit")
    terminal.press("n")
    terminal.until("started a new session\n>", without="Quit")
    terminal.press("Afresh\r")
    terminal.until("(echo, 1 message) Afresh\n\n>")
    assert terminal.leave() == 0
    assert cli.message_lines("last") == ["user: Afresh", "assistant: (echo, 1 message) Afresh"]


def test_a_signal_ends_a_chat_cleanly_also_after_a_choice_from_the_list(cli: Cli) -> None:
    cli.create("Fix the door")
    terminal = start_chat(cli)
    terminal.until("Ctrl-D leaves\n>")
    terminal.press("/resume\r")
    terminal.until("[q] Quit")
    terminal.press("q")
    terminal.until_prompt()
    terminal.signal(signal.SIGTERM)
    assert terminal.wait() == 143
    assert terminal.settings == terminal.first_settings


def test_quitting_the_list_starts_no_session(cli: Cli) -> None:
    cli.create("Fix the door")
    before = cli.files()
    terminal = start_chat(cli, "-r")
    terminal.until("[q] Quit")
    terminal.press("q")
    assert terminal.wait() == 0
    assert cli.files() == before
