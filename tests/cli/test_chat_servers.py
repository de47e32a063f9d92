"""`treering chat` with a model behind an HTTP server: requests, failures, usage."""

import json
import os
import signal
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeAlias

import pytest
from click.testing import Result

from treering import SyncHost, plain_text
from treering.contexts import calculate_budget
from treering.events.providers.openai import to_openai
from treering.projections.tokens import ByteEstimator
from treering.testing.model_server import Counts, Failure, ModelServer, Speech

from .conftest import Cli

if find_spec("openai") is None:
    pytest.skip("the extra `openai` is not installed", allow_module_level=True)

Chat: TypeAlias = Callable[..., Result]


@pytest.fixture
def flags(server: ModelServer) -> list[str]:
    return ["--model", "openai:any", "--base-url", server.openai_url, "--window", "8000"]


@pytest.fixture
def chat(cli: Cli, flags: list[str]) -> Chat:
    """Run a chat with that model."""
    return partial(cli.chat, *flags)


def bodies(server: ModelServer) -> list[list[dict[str, Any]]]:
    """The messages of each request that the server got."""
    return [request.body["messages"] for request in server.requests]


@pytest.mark.feature("N-77")
def test_a_context_is_built_before_each_request(cli: Cli, chat: Chat, server: ModelServer) -> None:
    for number in range(3):
        server.says(f"Answer {number}")
    result = chat("--system", "Be brief.", lines=("One", "Two", "Three"))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Answer 0\nAnswer 1\nAnswer 2\n", "")
    budget = calculate_budget(8000, "Be brief.", "", ByteEstimator())
    question_ids = [each.id for each in cli.entries() if each.type == "message" and each.message.role == "user"]
    with SyncHost(cli.root) as host:
        session = host.load("last", read_only=True)
        built = [session.build_context(budget, leaf_id=entry_id).to_messages() for entry_id in question_ids]
    system = {"role": "system", "content": "Be brief."}
    assert bodies(server) == [[system, *to_openai(messages)] for messages in built]
    assert [len(each) for each in bodies(server)] == [2, 4, 6]


def test_a_model_of_another_provider_answers(cli: Cli, server: ModelServer) -> None:
    if find_spec("anthropic") is None:
        pytest.skip("the extra `anthropic` is not installed")
    server.says("Here I am")
    flags = ["--model", "anthropic:any", "--base-url", server.url, "--system", "Be brief."]
    result = cli.chat(*flags, "-p", "Hello")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Here I am\n", "")
    assert (server.requests[0].path, server.requests[0].body["model"]) == ("/v1/messages", "any")


@pytest.mark.feature("N-78")
def test_debug_context_shows_the_last_request(cli: Cli, chat: Chat, server: ModelServer) -> None:
    server.says("First")
    server.says("Second")
    shown = chat("--system", "Be brief.", lines=("One", "Two", "/debug context --json", "/debug context")).stdout
    _, _, as_json, *lines = shown.splitlines()
    sent = json.loads(as_json)
    assert [(each["role"], each["content"][0]["text"]["content"]) for each in sent["messages"]] == [
        (each["role"], each["content"]) for each in bodies(server)[-1]
    ]
    assert sent["strategy"] == "full-history"
    assert sent["counts"] == {"original": 3, "included": 3, "summarized": 0, "dropped": 0, "masked": 0, "sent": 4}
    assert [sent["session_id"]] == cli.ids()
    assert lines[:4] == [
        "request 2",
        "strategy  full-history",
        f"tokens    {sent['tokens_used']:,} of {sent['token_budget']:,} (estimated)",
        "messages  4 messages sent, of 3 in the context: 3 as they are",
    ]
    expected = ["", "system", "  Be brief.", "", "user", "  One", "", "assistant", "  First", "", "user", "  Two"]
    assert lines[4:] == expected


def test_a_request_to_a_busy_server_is_retried(chat: Chat, server: ModelServer) -> None:
    server.reply(Failure(429, "later", [("retry-after", "0")]))
    server.says("Here I am")
    result = chat("-p", "Hello")
    assert (result.exit_code, result.stdout) == (0, "Here I am\n")
    assert result.stderr == "(openai answered 429: later; retrying in 0 s)\n"
    assert bodies(server)[0] == bodies(server)[1]


def test_a_refused_key_is_a_one_line_error_and_the_message_is_kept(
    cli: Cli, chat: Chat, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREERING_API_KEY", "the-key")
    server.reply(Failure(401, {"error": {"message": "no such\nkey\x1b[31m"}}))
    server.says("Welcome")
    result = chat("-p", "Hello", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "treering: openai answered 401: no such key\ufffd[31m\n"
    assert server.requests[0].headers["authorization"] == "Bearer the-key"
    assert cli.message_lines("last") == ["user: Hello"]
    assert chat("-c", lines=("/retry",)).stdout == "Welcome\n"
    assert bodies(server)[1] == bodies(server)[0]


@pytest.mark.feature("U-23")
def test_usage_is_kept_across_chats_and_differs_from_the_size_of_the_context(chat: Chat, server: ModelServer) -> None:
    server.says("One", usage=Counts(100, 10))
    server.says("One again", usage=Counts(100, 20))
    server.says("Two", usage=Counts(150, 30, cache_read=50))
    chat(lines=("Hello", "/retry"))
    before = chat("-c", lines=("/usage",)).stdout.splitlines()
    assert before == [
        "all branches: 200 tokens in, 30 out",
        "  openai/any: 200 tokens in, 30 out",
        "the next request takes about 120 tokens of 8000",
    ]
    shown = chat("-c", lines=("More", "/usage")).stdout.splitlines()
    assert shown[0] == "Two"
    assert shown[1:] == [
        "all branches: 300 tokens in, 60 out, 50 cached",
        "  openai/any: 300 tokens in, 60 out, 50 cached",
        "the next request takes about 180 tokens of 8000",
    ]
    assert chat("-c", lines=("/usage",)).stdout.splitlines() == shown[1:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_keeps_the_received_part_of_an_answer(
    cli: Cli, flags: list[str], server: ModelServer, number: signal.Signals
) -> None:
    server.reply(Speech(text=["Once upon ", "a time"], hold_after=3))
    with cli.spawn("chat", *flags, "-p", "Tell a story") as process:
        assert process.stdout is not None
        printed = b""
        while not printed.endswith(b"a time"):
            piece = os.read(process.stdout.fileno(), 1024)
            assert piece, process.communicate()
            printed += piece
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert server.gone.wait(60)
    with SyncHost(cli.root) as host:
        session = host.load("last")  # the session is no longer locked
        question, answer = session.messages()
    assert plain_text(question.content) == "Tell a story"
    assert (plain_text(answer.content), answer.stop_reason) == ("Once upon a time", "aborted")
