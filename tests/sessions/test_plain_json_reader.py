"""A log is text: thirty lines of Python that know only JSON can list it while treering writes it."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Literal, TypeAlias

import pytest

from treering import Content, MessageEntry, OpaqueEntry, SessionHost, message, plain_text, text, tool_use

Dialect: TypeAlias = Literal["native", "pi", "omp"]


def list_log(path: str) -> list[tuple[str, str | None, str, str]]:
    """List a log's entries as (id, parent, type, text)."""
    import json

    def text_of(value: object) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "\n".join(filter(None, map(text_of, value)))
        if isinstance(value, dict):
            return next((text_of(value[key]) for key in ("text", "content", "tool_result") if key in value), "")
        return ""

    rows: list[tuple[str, str | None, str, str]] = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            kind = entry["type"]
            if kind == "session":
                assert entry["version"] in (1, 3)
            elif kind != "title":
                parent = entry["parent_id"] if "parent_id" in entry else entry["parentId"]
                content = text_of(entry["message"]) if kind == "message" else ""
                rows.append((entry["id"], parent, kind, content))
    return rows


def test_the_reader_has_at_most_thirty_lines_and_imports_only_json() -> None:
    source = inspect.getsource(list_log)
    assert len(source.splitlines()) <= 30
    imported = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [name.name for node in imported for name in node.names] == ["json"]
    assert not {"treering", "msgspec", "Path", "plain_text"} & {
        node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)
    }


def entry_text(entry: object) -> str:
    if not isinstance(entry, MessageEntry):
        return ""
    for part in entry.message.content:
        if part.__struct_config__.tag == "tool_result":
            return part.tool_result.text  # type: ignore[union-attr]
    return plain_text(entry.message.content)


@pytest.mark.feature("O-37", "X-32")
@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_a_program_that_knows_only_json_lists_a_log_that_is_being_written(
    tmp_path: Path, dialect: Dialect
) -> None:
    async with SessionHost(tmp_path, dialect=dialect) as host:
        session = await host.create(cwd="/work/rings", key="telegram:1")
        path = session.file_path or ""

        async def check() -> None:
            entries = await session.entries()
            assert not [entry for entry in entries if isinstance(entry, OpaqueEntry)]
            rows = list_log(path)
            assert [(entry.id, entry.parent_id, entry_text(entry)) for entry in entries] == [
                (entry_id, parent, content) for entry_id, parent, _, content in rows
            ]
            if dialect == "native":
                assert [entry.type for entry in entries] == [kind for _, _, kind, _ in rows]

        first = await session.append_message("user", ["Hello\n\u2028", text("ünïcode 🌳 \x00")])
        await check()
        answer: list[Content | str] = [text("Let me look."), tool_use("c1", "read", {"path": "a"})]
        await session.append_message("assistant", answer, provider="p", model="m")
        await session.append_tool_execution("c1", "read", {"path": "a"}, "content", duration_ms=1.5)
        await check()
        await session.append_many([message("user", "both"), message("user", ["or", "none"])])
        await session.append_model_change("p", "m")
        await session.append_thinking_level_change("high")
        await session.set_label(first, "here")
        await session.append_session_info("name", metadata={"a": [1]})
        await session.append_custom_entry("x", {"y": {"text": "hidden"}})
        await session.append_custom_message("x", "shown")
        await session.append_compaction("summary", first, 10)
        await session.branch_with_summary(first, "other")
        await session.append_message("user", "again", command_id="c")
        await check()
        for copy in (await session.fork(), await session.create_branched_session(first)):
            assert [entry.id for entry in await copy.entries()] == [row[0] for row in list_log(copy.file_path or "")]
