"""What sessions do not do (file checkpoints, scoped state, composite keys), and what programs can use instead."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from treering import Session, SessionHost
from treering.projections.building.summaries import SummaryRequest

from .sessions import create_session

SOURCE = "def main():\n    print('a line that no session needs to hold')\n"


def contents_of(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "main.py").write_text(SOURCE)
    return folder


async def use_session(host: SessionHost, project: Path) -> Session:
    """Use a session as a coding agent does."""
    session = await host.create("s", cwd=project)
    question = await session.append_message("user", "Change main.py, and say why. " * 20)
    await session.append_tool_execution("c1", "write_file", {"path": "main.py"}, "written")
    await session.append_message("assistant", "Done. " * 50)
    await session.set_label(question, "before the change")
    await session.branch(question)
    await session.append_message("assistant", "Or otherwise. " * 50)
    await session.compact(summarized, keep_tokens=1)
    await session.update_metadata(metadata={"a": 1})
    await host.set_current_session(project, session)
    await session.fork("copy")
    await host.list_sessions()
    await host.flush()
    return session


async def summarized(request: SummaryRequest) -> str:
    return "In short."


@pytest.mark.feature("N-161", "N-162")
async def test_sessions_write_nothing_into_the_project_and_no_copy_of_its_files(root: Path, project: Path) -> None:
    before = contents_of(project)
    async with SessionHost(root) as host:
        await use_session(host, project)
    assert contents_of(project) == before  # nothing is written into the project
    found = contents_of(root)
    assert all(b"a line that no session needs" not in (content or b"") for content in found.values())
    assert not any("checkpoint" in path.name for path in found)
    async with SessionHost(root) as host:
        assert (await (await host.load("s")).messages())[-1].role == "assistant"


@pytest.mark.feature("N-163")
async def test_a_checkpoint_can_refer_to_an_entry_and_the_session_to_the_checkpoint(root: Path, project: Path) -> None:
    async with SessionHost(root) as host:
        session = await create_session(host, "s", cwd=project)
        at = session.leaf_id
        checkpoint = {"id": "cp-7", "files": {"main.py": "sha256:00ff"}, "sessionId": session.id, "entryId": at}
        await session.append_custom_entry("checkpoint", {"checkpointId": checkpoint["id"]})
        await session.append_message("assistant", "and on")
    # "Restore checkpoint cp-7 and resume session s."
    async with SessionHost(root) as host:
        resumed = await host.load(str(checkpoint["sessionId"]))
        (link,) = await resumed.entries(custom_type="checkpoint")
        assert getattr(link, "custom").data == {"checkpointId": "cp-7"}  # noqa: B009  # entries have no common `custom`
        await resumed.branch(str(checkpoint["entryId"]))
        assert [message.role for message in await resumed.messages()] == ["user"]


@pytest.mark.feature("N-168")
async def test_each_compaction_uses_the_summarizer_of_its_call(root: Path) -> None:
    requested: list[str] = []

    def by(name: str) -> Callable[[SummaryRequest], Awaitable[str]]:
        async def summarize(request: SummaryRequest) -> str:
            requested.append(name)
            return f"By {name}."

        return summarize

    async with SessionHost(root) as host:
        session = await create_session(host, "s", "word " * 200)
        for name in ("the small model", "the large model"):
            await session.append_message("assistant", "word " * 200)
            await session.append_message("user", "word " * 200)
            assert (await session.compact(by(name), keep_tokens=1)).summary == f"By {name}."
    assert requested == ["the small model", "the large model"]
