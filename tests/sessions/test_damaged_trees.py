"""Damaged trees: what can be read is read with a warning, and the rest is an error and never a hang."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from treering import CorruptTree, InvalidEntry, Session, SessionHost, plain_text, text, tool_result, tool_use
from treering.events.doctor import examine_file

AT = "2026-01-01T10:00:00Z"
HEADER = {"type": "session", "id": "given", "version": 1, "timestamp": AT}

FileOf = Callable[..., Path]


def line(entry_id: str, parent_id: str | None, content: object = "words", role: str = "user") -> dict[str, Any]:
    return {
        "type": "message",
        "id": entry_id,
        "parent_id": parent_id,
        "timestamp": AT,
        "message": {"role": role, "content": content},
    }


@pytest.mark.feature("G-116")
@pytest.mark.parametrize("read_only", [True, False])
async def test_a_missing_parent_starts_the_path_with_a_warning(
    host: SessionHost, file_of: FileOf, read_only: bool
) -> None:
    path = file_of(
        HEADER, line("a", None), line("b", "nowhere"), line("c", "b"), line("d", "later"), line("later", "d")
    )
    session = await host.load(path, read_only=read_only)
    assert session.path("c") == ["b", "c"]
    context = await session.context("c")
    assert [each.entry_id for each in context.messages] == ["b", "c"]
    [warning] = context.warnings
    assert "'b'" in warning
    assert "parent" in warning
    assert (await session.context("a")).warnings == ()


@pytest.mark.feature("G-116")
@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([line("x", "x")], id="self"),
        pytest.param([line("x", "x"), line("y", "x")], id="below self"),
        pytest.param([line("x", "y"), line("y", "x")], id="two"),
        pytest.param([line("x", "z"), line("y", "x"), line("z", "y")], id="three"),
        pytest.param([line("x", "y"), line("y", "x"), line("z", "y")], id="below two"),
    ],
)
async def test_a_path_into_a_cycle_raises_an_error(
    host: SessionHost, file_of: FileOf, lines: list[dict[str, Any]], read_only: bool
) -> None:
    session = await host.load(file_of(HEADER, line("a", None), *lines), read_only=read_only)
    for each in lines:
        with pytest.raises(CorruptTree):
            await session.context(each["id"])
        with pytest.raises(CorruptTree):
            session.path(each["id"])
    with pytest.raises(CorruptTree):
        await session.context()
    assert [each.entry_id for each in (await session.context("a")).messages] == ["a"]
    assert {node.id for node in session.tree().nodes} == {"a", *(each["id"] for each in lines)}
    assert session.labels() == []
    if not read_only:
        await session.branch("a")
        entry_id = await session.append_message("user", "out of it")
        assert session.path() == ["a", entry_id]


@pytest.mark.feature("G-64")
async def test_a_result_without_its_call_on_the_path_is_reported(host: SessionHost, session: Session) -> None:
    with pytest.raises(InvalidEntry):
        await session.append_message("tool", tool_result(None, "text"))  # type: ignore[arg-type]
    root = await session.append_message("user", "read them")
    await session.append_message("assistant", [text("yes"), tool_use("one", "read"), tool_use("two", "read")])
    await session.append_message("tool", tool_result("two", "second"))
    await session.append_message("tool", tool_result("one", "first"))
    path = session.file_path
    assert path is not None
    assert examine_file(path) == []
    await session.branch(root)
    elsewhere = await session.append_message("tool", tool_result("one", "on a branch without the call"))
    stray = await session.append_message("tool", [tool_result("never", "text")])
    found = [finding for finding in examine_file(path) if finding.code == "result_without_call"]
    assert [(finding.entry_id, finding.line) for finding in found] == [(elsewhere, 6), (stray, 7)]
    assert "'one'" in found[0].message
    assert "'never'" in found[1].message
    assert plain_text((await session.messages())[0].content) == "read them"


@pytest.mark.feature("G-64")
async def test_a_stored_result_without_the_id_of_its_call_is_not_in_the_context(
    host: SessionHost, file_of: FileOf
) -> None:
    nameless = [{"type": "tool_result", "tool_result": {"content": "text"}}]
    path = file_of(HEADER, line("a", None), line("b", "a", nameless, role="tool"), line("c", "b"))
    session = await host.load(path)
    assert session.path() == ["a", "b", "c"]
    assert [each.entry_id for each in (await session.context()).messages] == ["a", "c"]
    assert [(finding.code, finding.entry_id) for finding in examine_file(str(path))] == [("wrong_fields", "b")]
