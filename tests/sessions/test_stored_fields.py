"""Fields that a message or a compaction has, or must have: as a program gives them and reads them back."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from treering import MessageEntry, SessionHost, plain_text
from treering.entries import CompactionEntry, OpaqueEntry
from treering.errors import InvalidEntry


@pytest.mark.feature("G-41")
async def test_the_model_of_a_message_is_kept_and_may_be_absent(root: Path) -> None:
    models = [None, "m", "", "openai/gpt-5:high", "modèle 模型 \U0001f9ed", "\x00\x1f\u2028", "m" * 10_000]
    async with SessionHost(root) as host:
        session = await host.create("s")
        ids = [await session.append_message("assistant", "well", model=model) for model in models]
        live = await session.entries()
    async with SessionHost(root) as host:
        session = await host.load("s")
        read = [await session.entry(entry_id) for entry_id in ids]
    assert read == live
    assert [entry.message.model for entry in read if isinstance(entry, MessageEntry)] == models


@pytest.mark.feature("G-48")
async def test_a_compaction_has_a_summary_and_it_is_a_string(host: SessionHost, root: Path) -> None:
    session = await host.create("s")
    first = await session.append_message("user", "one")
    wrongs: list[Any] = [None, 7, b"short", ["short"], {"text": "short"}]
    before = await anyio.Path(root, "s.jsonl").read_bytes()
    for wrong in wrongs:
        with pytest.raises(InvalidEntry, match=r"compaction\.summary"):
            await session.append_compaction(wrong, first, 10)
    with pytest.raises(TypeError, match="summary"):
        await session.append_compaction(first_kept_entry_id=first, tokens_before=10)  # type: ignore[call-arg]
    assert await anyio.Path(root, "s.jsonl").read_bytes() == before
    await session.append_compaction("short", first, 10)
    *_, line = (await anyio.Path(root, "s.jsonl").read_bytes()).splitlines()
    stored = json.loads(line)
    del stored["seq"]
    payloads = [{}, *({"summary": wrong} for wrong in (None, 7, ["short"], {"text": "short"}))]
    for number, payload in enumerate(payloads):
        wrong = {"first_kept_entry_id": first, "tokens_before": 10, **payload}
        other = {**stored, "id": f"wrong{number}", "parent_id": stored["id"], "compaction": wrong}
        data = before + line + b"\n" + json.dumps(other).encode() + b"\n"
        await anyio.Path(root, f"{number}.jsonl").write_bytes(data)
        async with SessionHost(root) as reader:
            session = await reader.load(str(root / f"{number}.jsonl"), read_only=True)
            _, compaction, opaque = await session.entries()
            assert isinstance(compaction, CompactionEntry)
            assert compaction.compaction.summary == "short"
            assert isinstance(opaque, OpaqueEntry)
            assert "summary" in opaque.reason
            shown = (await session.context(opaque.id)).messages
            assert [plain_text(each.content) for each in shown] == ["short", "one"]
