"""Failures of providers over real connections become typed errors."""

import gc
import socket
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import pytest
import trio
from anyio import to_thread

from treering import ContextOverflow
from treering.agents import Model, ModelEvent, TextDelta
from treering.errors import AnswerCutOff, ModelError, ModelUnavailable, RateLimited, RequestRefused, RequestTooLong
from treering.models.anthropic import AnthropicModel
from treering.models.failures import failed_request, retry_after_s
from treering.models.openai import OpenAIModel
from treering.testing.model_server import Failure, ModelServer, Raw, Speech

from .asking import REQUEST, answer
from .conftest import Maker


async def failure(model: Model) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await answer(model)
    return raised.value


def openai_error(text: str, **fields: object) -> dict[str, Any]:
    return {"error": {"message": text, "type": None, "param": None, "code": None, **fields}}


def anthropic_error(kind: str, text: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": text}}


async def test_http_errors_become_typed_errors(server: ModelServer, model: Maker) -> None:
    later = [("retry-after", "7")]
    async with model() as client:
        for headers, seconds in ((later, 7.0), ([("retry-after-ms", "250"), ("retry-after", "1")], 0.25), ([], None)):
            server.reply(Failure(429, openai_error("Slow down."), headers))
            limited = await failure(client)
            assert isinstance(limited, RateLimited)
            assert (limited.status, limited.retry_after_s) == (429, seconds)
            assert "Slow down." in str(limited)
        for status in (500, 502, 503, 529, 408, 409):
            server.reply(Failure(status, anthropic_error("overloaded_error", "Overloaded"), later))
            broken = await failure(client)
            assert type(broken) is ModelUnavailable
            assert (broken.status, broken.retry_after_s) == (status, 7.0)
        for status in (400, 401, 403, 404, 422):
            server.reply(Failure(status, "no such thing"))
            refused = await failure(client)
            assert type(refused) is RequestRefused
            assert refused.status == status
            assert "no such thing" in str(refused)
    assert len(server.requests) == 14  # one request each: the libraries' own retries are disabled
    assert server.connections == 1


async def test_a_lost_connection_or_invalid_answer_is_a_typed_error(server: ModelServer, model: Maker) -> None:
    cut = Speech(text=["one", "two", "three"], cut_after=4)
    silent = Speech(text=["one", "two"], stop=None, usage=None)
    for reply in (cut, silent):
        server.reply(reply)
        stream = model().generate(REQUEST)
        assert await anext(stream) == TextDelta("one")
        with pytest.raises(AnswerCutOff):
            assert all([isinstance(event, TextDelta) async for event in stream])
    server.reply(Speech(text=["one"], cut_after=-1))  # the stop reason had arrived
    await answer(model())
    server.reply(Raw(b"data: {not json\n\n"), Raw(b"<html>Hello</html>"))
    assert type(await failure(model())) is ModelUnavailable
    assert type(await failure(model())) is AnswerCutOff


async def test_a_server_that_does_not_listen_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        for model in (OpenAIModel("m", base_url=url), AnthropicModel("m", base_url=url)):
            assert type(await failure(model)) is ModelUnavailable


async def test_a_silent_server_times_out(server: ModelServer, model: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes: the bounds that the HTTP library sets count as over once something was seen."""
    received: list[ModelEvent] = []
    seen: Sequence[object] = received
    bounds: set[float] = set()
    for library in (anyio, trio):

        def bounded(seconds: float, within: Callable[[float], object] = library.fail_after) -> object:
            bounds.add(seconds)
            return within(0 if seen else seconds)

        monkeypatch.setattr(library, "fail_after", bounded)

    async def receive() -> None:
        async for event in model(timeout_s=7).generate(REQUEST):
            received.append(event)  # noqa: PERF401  # each as it arrives

    for sent, error in ((4, AnswerCutOff), (0, ModelUnavailable)):
        server.requests.clear()
        seen = received if sent else server.requests
        server.reply(Speech(text=["one", "two", "three"], hold_after=sent))
        with pytest.raises(error):
            await receive()
    assert received[0] == TextDelta("one")
    assert bounds == {7}


async def test_cancelling_closes_the_connection(server: ModelServer, model: Maker) -> None:
    server.reply(Speech(text=["one", "two", "three"], hold_after=4))

    async def ask() -> None:
        async for event in model().generate(REQUEST):
            assert isinstance(event, TextDelta)
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
    assert await to_thread.run_sync(server.gone.wait, 60)


async def test_an_error_within_a_stream_becomes_a_typed_error(server: ModelServer) -> None:
    async with (
        OpenAIModel("m", base_url=server.openai_url) as openai,
        AnthropicModel("m", base_url=server.url) as claude,
    ):
        for model, text, sent, error in (
            (claude, ["one"], anthropic_error("overloaded_error", "Overloaded"), ModelUnavailable),
            (claude, [], anthropic_error("rate_limit_error", "Slow down"), RateLimited),
            (openai, ["one"], openai_error("Worker died", type="server_error"), ModelUnavailable),
            (openai, [], {"error": "Context size has been exceeded."}, RequestTooLong),
            (openai, [], {"error": {"code": 400, "message": "bad grammar"}}, RequestRefused),
        ):
            server.reply(Speech(text=text, extra=[sent]))
            assert type(await failure(model)) is error


LENGTH = "This model's maximum context length is"
SERVED = "request (1407 tokens) exceeds the available context size (256 tokens), try increasing it"
FIRST = "Trying to keep the first 9000 tokens when context the overflows. It has a context length of only 4096 tokens."
KEPT = "The number of tokens to keep from the initial prompt is greater than the context length."
NAMED = {"message": "the request exceeds the available context size", "n_prompt_tokens": 1407, "n_ctx": 256}
TOGETHER = "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease one and try again"
TOO_LONG: list[tuple[int, dict[str, Any], int | None, int | None]] = [
    (400, openai_error("Too much.", code="context_length_exceeded"), None, None),
    (400, openai_error(f"{LENGTH} 8192 tokens.", code="context_length_exceeded"), None, 8192),
    (400, openai_error("Your input exceeds the context window of this model. Please adjust it."), None, None),
    (400, openai_error("the input length exceeds the context length"), None, None),
    (400, openai_error(f"{LENGTH} 128,000 tokens, and you requested about 150000 tokens"), 150_000, 128_000),
    (400, openai_error(f"{LENGTH} 8192 tokens. However, your messages resulted in 8202 tokens."), 8202, 8192),
    (400, openai_error(f"{LENGTH} 4096 tokens. However, your request has 5000 input tokens."), 5000, 4096),
    (400, openai_error("maximum prompt length is 131072 but the request contains 200000 tokens."), 200_000, 131_072),
    (429, openai_error("Request too large for m on tokens per min (TPM): Limit 3, Requested 41235."), 41_235, 3),
    (400, openai_error("The input token count (12) exceeds the maximum number of tokens allowed (10)."), 12, 10),
    (400, openai_error(SERVED), 1407, 256),
    (400, {"error": {"code": 400, "message": "n_ctx", "type": "exceed_context_size_error", "n_ctx": 256}}, None, 256),
    (500, {"error": {"code": 500, "message": "the request exceeds the available context size"}}, None, None),
    (400, {"error": NAMED}, 1407, 256),
    (400, {"error": {**NAMED, "n_ctx": "256", "n_prompt_tokens": True}}, None, None),
    (400, {"error": FIRST}, None, 4096),
    (400, {"error": KEPT}, None, None),
    (400, {"object": "error", "message": f"{LENGTH} 4096 tokens. You requested 5000."}, 5000, 4096),
    (400, anthropic_error("invalid_request_error", "prompt is too long: 207 tokens > 200 maximum"), 207, 200),
    (400, anthropic_error("invalid_request_error", TOGETHER), 207_951, 200_000),
    (413, anthropic_error("request_too_large", "Request exceeds the maximum size"), None, None),
]


async def test_a_request_that_is_too_long_states_needed_and_given_tokens(server: ModelServer, model: Maker) -> None:
    async with model() as client:
        for status, body, needed, available in TOO_LONG:
            server.reply(Failure(status, body))
            error = await failure(client)
            assert type(error) is RequestTooLong, body
            assert isinstance(error, ContextOverflow)
            assert (error.status, error.needed, error.available) == (status, needed, available), body


async def test_an_exhausted_quota_is_not_a_rate_limit(server: ModelServer) -> None:
    server.reply(Failure(429, openai_error("You exceeded your current quota.", code="insufficient_quota")))
    assert type(await failure(OpenAIModel("m", base_url=server.openai_url))) is RequestRefused


async def test_without_a_key_no_request_is_sent(monkeypatch: pytest.MonkeyPatch, server: ModelServer) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("HOME", "/nonexistent")
    for model in (OpenAIModel("m"), AnthropicModel("m")):
        assert type(await failure(model)) is RequestRefused
    assert server.requests == []


async def test_an_environments_key_goes_to_no_others_host(monkeypatch: pytest.MonkeyPatch, server: ModelServer) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    for model in (OpenAIModel("m", base_url=server.openai_url), AnthropicModel("m", base_url=server.url)):
        server.says("Hello")
        await answer(model)
    assert len(server.requests) == 2
    assert not any("secret" in value for sent in server.requests for value in sent.headers.values())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_an_answer_that_cannot_be_decompressed_is_unavailable(server: ModelServer, model: Maker) -> None:
    for status in (200, 429, 500):
        server.reply(Failure(status, "this is no gzip", [("content-encoding", "gzip")]))
        error = await failure(model())
        assert type(error) is ModelUnavailable
        assert "cannot be decoded" in str(error)
        del error
    gc.collect()  # the HTTP library leaves a generator behind; trio's warning about it must come within this test


def test_retry_after_is_parsed_from_dates_and_numbers() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100))
    assert 90 < (retry_after_s({"retry-after": later}) or 0) <= 100
    earlier = format_datetime(datetime.now(UTC) - timedelta(seconds=100))
    assert retry_after_s({"retry-after": earlier}) == 0
    for nonsense in ("soon", "inf", "nan", "-3", "", f"Mon, 01 Jan {10**20} 00:00:00 GMT"):
        assert retry_after_s({"retry-after": nonsense}) is None


def test_an_unknown_error_body_is_quoted_in_the_message() -> None:
    assert "{'odd': 1}" in str(failed_request("it", 400, {}, {"odd": 1}))
    assert "no message" in str(failed_request("it", 500, {}, None))
    assert type(failed_request("it", None, {}, None)) is ModelUnavailable
