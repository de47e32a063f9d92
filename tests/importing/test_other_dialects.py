"""An export in another dialect is imported into the session that it came from."""

import json
from pathlib import Path
from typing import Literal

import pytest

from treering import Message, SessionHost, tool_result, tool_use
from treering.errors import SessionExists
from treering.sessions import ImportReport

PI = Path(__file__).parents[1] / "data" / "pi_v3.jsonl"

Dialect = Literal["native", "pi", "omp"]


async def create_conversation(host: SessionHost, *, at_once: bool = False) -> str:
    session = await host.create("talk", cwd="/work")
    await session.append_message("user", "What is there?")
    calls = (tool_use("c1", "ls", {}), tool_use("c2", "pwd", {}))
    await session.append(Message("assistant", calls))
    results = (tool_result("c1", "a"), tool_result("c2", "/work"))
    for each in [results] if at_once else [results[:1], results[1:]]:
        await session.append(Message("tool", each))
    await session.append_message("assistant", "One file.")
    return session.id


async def assert_only_session(host: SessionHost, report: ImportReport) -> None:
    (row,) = await host.list_sessions(status="any")
    assert (row.id, row.ref) == (report.id, report.ref)


@pytest.mark.parametrize("name", ["json", "native", "omp"])
async def test_importing_an_export_of_pi_adds_nothing(name: Literal["json", "native", "omp"], tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "sessions") as host:
        (first,) = await host.import_sessions(PI)
        path = await (await host.load(first.id)).export(name, tmp_path / "out")
        (again,) = await host.import_sessions(path)
        assert (again.id, again.ref, again.added, again.existed) == (first.id, first.ref, 0, True)
        await assert_only_session(host, first)


@pytest.mark.parametrize("name", ["pi", "omp"])
async def test_importing_an_export_of_a_native_session_adds_nothing(name: Literal["pi", "omp"], tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "sessions") as host:
        session = await host.load(await create_conversation(host, at_once=True))
        path = await session.export(name, tmp_path / "out.jsonl")
        await session.append_message("user", "Thanks.")
        (again,) = await host.import_sessions(path)
        assert (again.id, again.added, again.existed) == (session.id, 0, True)
        await assert_only_session(host, again)


@pytest.mark.parametrize(("own", "other"), [("native", "pi"), ("pi", "native")])
async def test_new_entries_in_another_dialect_are_refused(own: Dialect, other: Dialect, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "elsewhere", dialect=other) as elsewhere:
        session = await elsewhere.load(await create_conversation(elsewhere))
        before = await session.export(own, tmp_path / "before.jsonl")
        await session.append_message("user", "Thanks.")
        after = await session.export(other, tmp_path / "after.jsonl")
    async with SessionHost(tmp_path / "sessions") as host:
        (report,) = await host.import_sessions(before)
        content = (tmp_path / "sessions" / report.ref).read_bytes()
        with pytest.raises(SessionExists, match=r"another dialect .* lacks 1 entry"):
            await host.import_sessions(after)
        await assert_only_session(host, report)
        assert (tmp_path / "sessions" / report.ref).read_bytes() == content


async def test_a_folder_with_exports_in_several_dialects_gives_one_session(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    async with SessionHost(tmp_path / "elsewhere") as elsewhere:
        session = await elsewhere.load(await create_conversation(elsewhere))
        for name in ("native", "pi"):
            await session.export(name, source / f"{name}.jsonl")
        await session.append_message("user", "Thanks.")
        await session.export("json", source / "z.json")
        other = await elsewhere.create("other")
        await other.append_message("user", "Hello.")
        await other.export("native", source / "zz.jsonl")
    async with SessionHost(tmp_path / "sessions") as host:
        reports = await host.import_sessions(source)
        assert [(each.id, each.existed) for each in reports] == [
            ("talk", False), ("talk", True), ("talk", True), ("other", False),
        ]  # fmt: skip
        assert len(await host.list_sessions()) == 2


async def test_a_copy_with_another_working_directory_is_imported_into_its_session(tmp_path: Path) -> None:
    """A pi log is named after its time and working directory, which the header may state differently by now."""
    source = tmp_path / "moved.jsonl"
    header, *lines = PI.read_text().splitlines()
    source.write_text("\n".join([json.dumps({**json.loads(header), "cwd": "/elsewhere"}), *lines]) + "\n")
    async with SessionHost(tmp_path / "sessions") as host:
        (first,) = await host.import_sessions(PI)
        (again,) = await host.import_sessions(source)
        assert (again.ref, again.added) == (first.ref, 0)
        await assert_only_session(host, first)
