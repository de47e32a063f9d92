"""The real programs are followed while they run: what each is doing is a row before it has ended."""

from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.handing_over.programs import Program, are_installable
from tests.handing_over.scripted_model import scripted_model

from treering.actors.programs.sessions import ProgramSessions
from treering.formats.handing_over.targets import target_names

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not are_installable(), reason="node and npm are not installed"),
]

TURN_AT_MOST_S = 240


@pytest.mark.parametrize("program", target_names())
async def test_a_session_is_a_row_that_changes_as_its_program_writes(program: str, tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    changed = anyio.Event()

    async def follow() -> None:
        nonlocal changed
        while True:
            await sessions.receive_many()
            changed.set()
            changed = anyio.Event()

    def has_ended(since: datetime) -> bool:
        rows = [*sessions.rows.values()]
        return bool(rows) and rows[0].updated > since and rows[0].state is not None and rows[0].state.state == "idle"

    with scripted_model() as model, ProgramSessions({"HOME": str(home)}) as sessions:
        real = Program(program, home, project, model.url)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            for turn in range(2):
                began = datetime.now(UTC)
                own = next(iter(sessions.rows.values())).id if turn else None
                await anyio.to_thread.run_sync(real.run, f"Prompt number {turn}. [[echo printed-{turn}]]", own)
                with anyio.fail_after(TURN_AT_MOST_S):
                    while not (has_ended(began) and is_titled(sessions, program)):
                        await changed.wait()
                (row,) = sessions.rows.values()
                assert (row.program, row.cwd, row.problem) == (program, str(project), None)
            tasks.cancel_scope.cancel()


def is_titled(sessions: ProgramSessions, program: str) -> bool:
    """Return whether the only session has the title that its program's first prompt gives it."""
    (row,) = sessions.rows.values()
    return "Prompt number 0" in (row.title or "") or program == "opencode"  # which makes up a title
