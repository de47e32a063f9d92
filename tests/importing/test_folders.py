"""Importing folders as the programs lay them out: each session is imported once, and other files are counted."""

import json
import os
import shutil
import sys
from pathlib import Path
from random import Random

import pytest

from treering import SessionHost, UnsupportedVersion
from treering.errors import ForeignFormatError
from treering.formats.programs import format_names
from treering.sessions import ImportReports

pytestmark = pytest.mark.parametrize("anyio_backend", [("asyncio", {})], ids=["asyncio"])

DATA = Path(__file__).resolve().parents[1] / "data"
CLAUDE = DATA / "claude_code"


async def import_twice(root: Path, source: Path, format: str | None = None) -> ImportReports:
    """Import a folder twice, and check that the second import adds nothing."""
    async with SessionHost(root) as host:
        reports = await host.import_sessions(source, format=format)
        again = await host.import_sessions(source, format=format)
    assert isinstance(reports, ImportReports)
    assert [each.added for each in again] == [0] * len(reports)
    assert [each.id for each in again] == [each.id for each in reports]
    return reports


def copy_data(name: str, to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    source = DATA / name
    if source.is_dir():
        shutil.copytree(source, to, ignore=shutil.ignore_patterns("counts.txt"))
    else:
        shutil.copy(source, to)
    return to


async def test_the_projects_of_claude_code_are_imported_with_their_sub_agents(tmp_path: Path) -> None:
    projects = tmp_path / ".claude" / "projects"
    for name in ("delegating.jsonl", "delegating"):
        copy_data(f"claude_code/{name}", projects / "-work-orchard" / name)
    copy_data("claude_code/work.jsonl", projects / "-work-shop" / "work.jsonl")
    (projects / "-work-shop" / "tool-results").mkdir()
    (projects / "-work-shop" / "tool-results" / "r1.txt").write_text("A result.")
    async with SessionHost(tmp_path / "alone") as host:
        alone = await host.import_sessions(CLAUDE / "delegating.jsonl")
    assert len(alone) == 3
    reports = await import_twice(tmp_path / "sessions", projects)
    assert [each.id for each in reports[:3]] == [each.id for each in alone]
    assert [each.entries for each in reports[:3]] == [each.entries for each in alone]
    assert [Path(each.source).name for each in reports] == ["delegating.jsonl"] * 3 + ["work.jsonl"]
    assert (reports.unknown, [Path(each).name for each in reports.unknown_paths]) == (1, ["r1.txt"])
    async with SessionHost(tmp_path / "sessions") as host:
        agents = [await host.load(each.id) for each in reports[1:3]]
        assert {each.header.parent_session for each in agents} == {reports[0].id}
        assert all(each.header.parent_entry for each in agents)


async def test_sub_agents_beside_a_transcript_are_imported_with_it(tmp_path: Path) -> None:
    """The transcript's name sorts after theirs."""
    folder = tmp_path / "-work-orchard"
    copy_data("claude_code/delegating.jsonl", folder / "f0000000.jsonl")
    for agent in (CLAUDE / "delegating" / "subagents").iterdir():
        copy_data(f"claude_code/delegating/subagents/{agent.name}", folder / agent.name)
    reports = await import_twice(tmp_path / "sessions", tmp_path)
    assert len(reports) == len({each.id for each in reports}) == 3
    assert {Path(each.source).name for each in reports} == {"f0000000.jsonl"}


@pytest.mark.parametrize(("name", "format"), [("pi_v3", "pi"), ("pi_v1", "pi"), ("omp_v3", "omp")])
@pytest.mark.parametrize("named", [False, True])
async def test_session_folders_of_pi_and_omp_are_imported(tmp_path: Path, name: str, format: str, named: bool) -> None:
    sessions = tmp_path / ".pi" / "agent" / "sessions"
    path = copy_data(f"{name}.jsonl", sessions / "--work-orchard--" / "2026-01-01_one.jsonl")
    (path.parent / "2026-01-01_one.jsonl.bak").write_bytes(path.read_bytes())
    (report,) = reports = await import_twice(tmp_path / "sessions", sessions, format if named else None)
    assert (report.format, report.source) == (format, str(path))
    assert (reports.unknown, reports.failed) == (0, ())
    if name != "pi_v1":  # a v1 file is migrated when it is opened for the comparison
        assert (tmp_path / "sessions" / report.ref).read_bytes() == path.read_bytes()


@pytest.fixture(params=[".gz", ".zst"])
def suffix(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The suffix of archived logs, for each compression."""
    if request.param == ".gz":
        monkeypatch.setitem(sys.modules, "zstandard", None)
    return str(request.param)


async def test_another_root_is_imported_and_the_files_beside_its_logs_are_ignored(tmp_path: Path, suffix: str) -> None:
    other = tmp_path / "other"
    async with SessionHost(other) as host:
        for key in ("telegram:1", "telegram:2"):
            session = await host.get_or_create(key)
            await session.append_message("user", f"I am {key}.")
        await host.archive("telegram_2")
    assert (other / f"telegram_2.jsonl{suffix}").exists()
    for beside in ("telegram_1.jsonl.bak", "telegram_1.jsonl.torn-7-0000abcd", "telegram_1.jsonl.leaf"):
        (other / beside).write_bytes((other / "telegram_1.jsonl").read_bytes())
    reports = await import_twice(tmp_path / "sessions", other)
    assert [(each.id, each.format) for each in reports] == [("telegram_1", "native"), ("telegram_2", "native")]
    assert (reports.unknown, reports.failed) == (0, ())
    async with SessionHost(tmp_path / "sessions") as host:
        assert [row.id for row in await host.list_sessions(status="archived")] == ["telegram_2"]
        (message,) = await (await host.get_or_create("telegram:2")).history()
        assert "telegram:2" in str(message.content)


async def test_an_archived_log_that_hardly_compresses_is_imported(tmp_path: Path, suffix: str) -> None:
    noise = Random(1).randbytes(200_000).hex()
    async with SessionHost(tmp_path / "other") as host:
        await (await host.create("a")).append_message("user", noise)
        await host.archive("a")
    (report,) = await import_twice(tmp_path / "sessions", tmp_path / "other" / f"a.jsonl{suffix}")
    assert (report.id, report.format, report.entries) == ("a", "native", 2)


async def test_a_damaged_archived_log_is_reported_and_the_others_are_imported(tmp_path: Path) -> None:
    other = tmp_path / "other"
    async with SessionHost(other) as host:
        for name in ("a", "b"):
            await (await host.create(name)).append_message("user", "Hello")
        await host.archive("a")
    (packed,) = (path for path in other.glob("a.jsonl.*") if path.suffix in (".gz", ".zst"))
    packed.write_bytes(packed.read_bytes()[:-4])
    reports = await import_twice(tmp_path / "sessions", other)
    assert [each.id for each in reports] == ["b"]
    assert [Path(each.path).name for each in reports.failed] == [packed.name]


async def test_the_folder_above_opencodes_storage_is_imported(tmp_path: Path) -> None:
    share = tmp_path / "share" / "opencode"
    copy_data("opencode/storage", share / "storage")
    (share / "log").mkdir()
    (share / "log" / "today.log").write_text("INFO started\n")
    reports = await import_twice(tmp_path / "sessions", tmp_path / "share")
    assert [each.id for each in reports] == ["ses_1", "ses_2"]
    assert {each.source for each in reports} == {str(share / "storage")}
    assert reports.unknown == 1


async def test_a_folder_with_sessions_of_all_programs_is_imported(tmp_path: Path) -> None:
    everything = copy_data("", tmp_path / "everything")
    (everything / "notes.md").write_text("Nothing that anybody would import.\n")
    (everything / "package.json").write_text('{"name": "orchard"}\n')
    folder = everything / "nanocoder" / "session-n-1"
    folder.mkdir(parents=True)
    line = b'{"id":"m1","seq":1,"parentId":null,"role":"user","content":"Hello","tokens":{}}\n'
    (folder / "messages.jsonl").write_bytes(line)
    (folder / "metadata.json").write_text('{"version": 1, "id": "n-1"}')
    reports = await import_twice(tmp_path / "sessions", everything)
    found = {each.format for each in reports}
    assert found == {*format_names()} - {"native", "treering-json"}  # which the folder has no sample of
    assert all(each.added == each.entries for each in reports if not each.existed)
    named = {Path(each).name for each in reports.unknown_paths}
    assert {"notes.md", "package.json"} <= named
    assert reports.unknown == len(named)
    assert reports.failed == ()


async def test_with_a_format_given_only_its_sessions_are_imported(tmp_path: Path) -> None:
    copy_data("pi_v3.jsonl", tmp_path / "all" / "pi.jsonl")
    copy_data("codex/codex.jsonl", tmp_path / "all" / "deep" / "codex.jsonl")
    (report,) = reports = await import_twice(tmp_path / "sessions", tmp_path / "all", "codex")
    assert (report.format, reports.unknown) == ("codex", 1)
    async with SessionHost(tmp_path / "sessions") as host:
        with pytest.raises(ForeignFormatError, match="holds no dive session"):
            await host.import_sessions(tmp_path / "all", format="dive")


async def test_a_file_that_cannot_be_imported_is_reported_and_the_others_are_imported(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    copy_data("pi_v3.jsonl", folder / "b.jsonl")
    newer = {"type": "session", "version": 99, "id": "n", "timestamp": "2026-01-01T10:00:00Z"}
    (folder / "a.jsonl").write_text(json.dumps(newer) + "\n")
    (folder / "c.jsonl").write_text(json.dumps({**newer, "version": 3, "id": "../evil"}) + "\n")
    (report,) = reports = await import_twice(tmp_path / "sessions", folder)
    assert report.source == str(folder / "b.jsonl")
    assert [Path(each.path).name for each in reports.failed] == ["a.jsonl", "c.jsonl"]
    assert all(each.severity == "error" for each in reports.failed)
    async with SessionHost(tmp_path / "sessions") as host:
        (folder / "b.jsonl").unlink()
        with pytest.raises(ForeignFormatError, match="1 more"):
            await host.import_sessions(folder)
        (folder / "c.jsonl").unlink()
        with pytest.raises(UnsupportedVersion):
            await host.import_sessions(folder)
        (folder / "a.jsonl").unlink()
        with pytest.raises(ForeignFormatError, match="no session in any known format"):
            await host.import_sessions(folder)


async def test_symlinks_and_pipes_do_not_block_an_import(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    copy_data("pi_v3.jsonl", folder / "deep" / "pi.jsonl")
    (folder / "deep" / "up").symlink_to(folder, target_is_directory=True)
    (folder / "nowhere.jsonl").symlink_to(folder / "gone")
    os.mkfifo(folder / "pipe.jsonl")
    reports = await import_twice(tmp_path / "sessions", folder)
    assert (len(reports), reports.unknown) == (1, 0)


async def test_the_hosts_own_root_inside_the_folder_is_skipped(tmp_path: Path) -> None:
    copy_data("pi_v3.jsonl", tmp_path / "pi" / "one.jsonl")
    reports = await import_twice(tmp_path / "own" / "sessions", tmp_path)
    assert [Path(each.source).name for each in reports] == ["one.jsonl"]


async def test_at_most_five_unknown_files_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    copy_data("pi_v3.jsonl", folder / "pi.jsonl")
    for number in range(40):
        (folder / f"{number:02}.txt").write_text("words")
    reports = await import_twice(tmp_path / "sessions", folder)
    assert reports.unknown == 40
    assert [Path(each).name for each in reports.unknown_paths] == [f"{number:02}.txt" for number in range(5)]


async def test_the_folder_of_real_session_files_is_imported(shared_fixtures: Path, tmp_path: Path) -> None:
    reports = await import_twice(tmp_path / "sessions", shared_fixtures)
    assert {each.format for each in reports} >= {
        "claude-code",
        "codex",
        "dive",
        "gemini",
        "nanocoder",
        "opencode",
        "pi",
    }
    assert reports.failed == ()
