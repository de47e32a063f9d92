"""Events are logged to structlog if the program configured it, otherwise to the standard library, never to stdout."""

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from treering.events.telemetry import logger

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "logging.md"

PROGRAM = """
import anyio, json, sys
from treering import AgentSession, tool, tool_use
from treering.testing.models import ScriptedModel, answer

if len(sys.argv) > 1:
    import structlog
    structlog.configure(processors=[structlog.processors.JSONRenderer()],
                        logger_factory=structlog.PrintLoggerFactory(sys.stderr))

@tool
async def broken() -> str:
    '''Fail.'''
    raise OSError("secret")

async def main() -> None:
    agent = AgentSession(ScriptedModel([answer(tool_use("1", "broken")), "Done."]), tools=[broken])
    print(json.dumps({"text": (await agent.respond("Go")).text, "structlog": "structlog" in sys.modules}))

anyio.run(main)
"""


@pytest.fixture(autouse=True)
def _unconfigured() -> Iterator[None]:
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


def run_program(*arguments: str) -> tuple[Any, str]:
    """Run a program whose tool fails; return its stdout, which must be JSON, and its stderr."""
    ended = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True)
    return json.loads(ended.stdout), ended.stderr


def test_without_configuration_events_go_to_stderr_and_not_to_stdout() -> None:
    printed, logged_text = run_program()
    assert printed == {"text": "Done.", "structlog": False}
    assert re.fullmatch(
        r"tool_failed session_id=None call_id='\w+' tool='broken' error='OSError' raised_at=\[.*\]\n", logged_text
    )
    assert "secret" not in logged_text


def test_events_go_to_structlog_if_the_program_configured_it() -> None:
    printed, logged_text = run_program("structlog")
    assert printed == {"text": "Done.", "structlog": True}
    event = json.loads(logged_text)
    assert (event["event"], event["tool"], event["error"]) == ("tool_failed", "broken", "OSError")


def test_a_record_of_the_standard_logger_has_event_fields_and_caller(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="treering")
    logger().debug("too_fine", a=1)
    logger().warning("what_100%_happened", session_id="s", count=2)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("treering", logging.WARNING)
    assert record.getMessage() == "what_100%_happened session_id='s' count=2"
    assert vars(record)["treering"] == {"session_id": "s", "count": 2}
    assert (record.pathname, record.funcName) == (
        __file__,
        "test_a_record_of_the_standard_logger_has_event_fields_and_caller",
    )


def test_the_configuration_of_structlog_is_checked_for_each_event(caplog: pytest.LogCaptureFixture) -> None:
    with structlog.testing.capture_logs() as captured:
        logger().error("to_structlog", a=1)
    structlog.reset_defaults()
    logger().error("to_logging", a=2)
    assert captured == [{"event": "to_structlog", "log_level": "error", "a": 1}]
    assert [record.getMessage() for record in caplog.records] == ["to_logging a=2"]


_ROOMS = ("mcp", "models", "adapters", "stores", "remote", "server/cluster")
PACKAGES = ("events", "projections", "actors", *(f"src/treering/{room}" for room in _ROOMS))
"""What logs the events of the page; those of a server's requests are on its own."""


def test_the_page_lists_every_event_with_its_level() -> None:
    sources = [path for package in PACKAGES for path in PROJECT.glob(f"{package}/**/*.py")]
    logged = {
        (name, level)
        for path in sources
        for level, name in re.findall(r'logger\(\)\.(\w+)\(\s*"(\w+)"', path.read_text(encoding="utf-8"))
    }
    listed = re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == logged
