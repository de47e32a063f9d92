"""The sessions of other programs in the viewer: live rows, transcripts that grow, nothing that could be changed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from playwright.async_api import Page, expect
from tests.programs.homes import DATA, GROVE, Machine, append, claude_line

from treering import SessionHost
from treering.actors.programs.mirror import ProgramMirror
from treering.actors.programs.sessions import ProgramSessions

from .conftest import WAIT_MS, Serving, Site

pytestmark = pytest.mark.browser
expect.set_options(timeout=WAIT_MS)

CALLS = {
    "role": "assistant",
    "id": "msg_9",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make test"}}],
}


def stamp(ago_s: float) -> str:
    """The time that long ago, as Claude Code writes it."""
    return f"{datetime.now(UTC) - timedelta(seconds=ago_s):%Y-%m-%dT%H:%M:%S.000Z}"


def lately(machine: Machine) -> None:
    """Let several sessions be of the last minutes: one at work, one that waits, one that failed."""
    machine.fill()
    asks = {"id": "t2", "name": "AskUserQuestion", "input": {"question": "Delete the old migrations?"}}
    sessions = {
        GROVE: ("/home/mara/grove", "Plant the pears along the wall and tell me what is missing", {"message": CALLS}),
        "2" * 8: (
            "/home/mara/api",
            "Squash the migrations",
            {"message": CALLS | {"content": [{"type": "tool_use", **asks}]}},
        ),
        "3" * 8: ("/home/mara/docs", "Why does the build of the pages fail?", {}),
    }
    for at, (name, (cwd, asked, fields)) in enumerate(sessions.items()):
        lines = [
            claude_line(1, asked, session=name, cwd=cwd, timestamp=stamp(100 - at * 20)),
            claude_line(2, "The link checker failed.", "assistant", session=name, cwd=cwd, timestamp=stamp(70 - at))
            if not fields
            else claude_line(2, "", "assistant", session=name, cwd=cwd, timestamp=stamp(60 + at * 20), **fields),
        ]
        (machine.claude / f"{name}.jsonl").write_bytes(b"".join(lines))
    rollout = (DATA / "codex" / "codex.jsonl").read_bytes()
    machine.rollout.write_bytes(rollout.replace(b"2026-03-01T09:00:14.000Z", stamp(30).encode()))


@asynccontextmanager
async def shown(machine: Machine, root: Path, serving: Serving) -> AsyncIterator[Site]:
    """Serve the sessions of a machine as long as the block runs."""
    async with SessionHost(root) as host, anyio.create_task_group() as tasks:
        mirror = ProgramMirror(host, ProgramSessions(machine.environ))
        tasks.start_soon(mirror.run)
        async with serving(host, programs=mirror, read_only=True) as site:
            yield site
        tasks.cancel_scope.cancel()


async def test_sessions_of_programs_are_live_rows_that_open_and_grow(
    page: Page, tmp_path: Path, serving: Serving
) -> None:
    machine = Machine(tmp_path / "home")
    lately(machine)
    before = machine.state()
    async with shown(machine, tmp_path / "root", serving) as site:
        await page.goto(site.url)
        row = page.locator(".agent", has_text="Plant the pears")
        await expect(row).to_contain_text("working")
        await expect(row.locator(".origin")).to_have_text("Claude Code grove")
        await expect(row.locator(".doing")).to_have_text("Bash make test")
        await expect(page.locator(".agent", has_text="Squash the migrations")).to_contain_text("waits")
        await expect(page.locator(".agent", has_text="Oven test").locator(".origin")).to_have_text("Codex bakery")
        await expect(page.get_by_role("link", name="Usage")).to_have_count(0)
        assert machine.state() == before

        append(machine.growing, claude_line(3, "And quinces.", timestamp=stamp(0)))
        await expect(row.locator(".doing")).to_have_text("And quinces.")

        await row.click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(
            "Plant the pears along the wall and tell me what is missing"
        )
        await expect(page.locator(".session-bar .pill")).to_have_text("Claude Code")
        await expect(page.get_by_role("button", name="Bash make test")).to_be_visible()
        await expect(page.get_by_role("textbox", name="Message")).to_have_count(0)
        append(machine.growing, claude_line(4, "Quinces are planted.", "assistant", timestamp=stamp(0)))
        await expect(page.locator("#main").get_by_text("Quinces are planted.")).to_be_visible()

        machine.rollout.write_bytes(b"torn\n")
        await page.goto(site.url)
        torn = page.locator(".agent", has_text="Oven test")
        await expect(torn).to_contain_text("unreadable")
        await expect(torn).to_contain_text("the file is not a session of Codex")
        await page.goto(site.url + "sessions")
        await expect(page.locator(".listed", has_text="Rings").locator(".origin")).to_have_text("pi rings")
        (machine.pi / "rings.jsonl").unlink()
        await expect(page.locator(".listed", has_text="Rings")).to_have_count(0)
        await page.goto(site.url + "usage")
        await expect(page.locator(".notice")).to_contain_text("sessions of other programs are not added up")
        await page.close()
