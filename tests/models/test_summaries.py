"""Compacting a session with a model over a real connection."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from treering import ModelUnavailable, RequestTooLong, SessionHost, Usage, summarizer_of
from treering.models.anthropic import AnthropicModel
from treering.models.openai import OpenAIModel
from treering.projections.building.summaries import MAX_ATTEMPTS
from treering.testing.model_server import Counts, Failure, ModelServer

TOO_LONG = Failure(400, {"error": {"message": "prompt is too long", "code": "context_length_exceeded"}})


async def conversation(host: SessionHost) -> str:
    session = await host.create()
    for turn in range(20):
        await session.append_message("user", f"question {turn}: " + "word " * 200)
        await session.append_message("assistant", f"answer {turn}: " + "word " * 200)
    return session.id


def request_sizes(server: ModelServer) -> list[int]:
    return [len(json.dumps(sent.body["messages"])) for sent in server.requests]


async def test_a_session_is_compacted_with_the_models_summary(
    tmp_path: Path, server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    server.says("They asked, ", "and were answered.", usage=Counts(5000, 8))
    async with model() as client, SessionHost(tmp_path) as host:
        session = await host.load(await conversation(host))
        report = await session.compact(summarizer_of(client), keep_tokens=2000)
        assert report.summary == "They asked, and were answered."
        assert report.tokens_after < report.tokens_before / 2
        context = await session.context()
        assert "They asked, and were answered." in str(context.messages[0].content)
        entry = await session.entry(str(report.entry_id))
        assert entry is not None
        assert entry.compaction.usage == Usage(5000, 8, total_tokens=5008)  # type: ignore[union-attr]
    assert "question 0" in json.dumps(server.requests[0].body)


async def test_a_summary_request_that_is_too_long_is_shortened_until_it_fits(
    tmp_path: Path, server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    server.reply(TOO_LONG, TOO_LONG)
    server.says("They talked.")
    async with model() as client, SessionHost(tmp_path) as host:
        session = await host.load(await conversation(host))
        report = await session.compact(summarizer_of(client), keep_tokens=2000)
        assert report.summary == "They talked."
    first, second, third = request_sizes(server)
    assert first > second > third
    assert third < first / 2


async def test_a_failing_model_leaves_the_session_unchanged(
    tmp_path: Path, server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    server.reply(Failure(503, "loading"), *[TOO_LONG] * MAX_ATTEMPTS)
    async with model() as client, SessionHost(tmp_path) as host:
        session = await host.load(await conversation(host))
        before = session.leaf_id
        for error in (ModelUnavailable, RequestTooLong):
            with pytest.raises(error):
                await session.compact(summarizer_of(client), keep_tokens=2000)
            assert session.leaf_id == before
    assert len(server.requests) == 1 + MAX_ATTEMPTS
