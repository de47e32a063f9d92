"""The clients of the protocol's own SDK, of both major versions, over stdio and over HTTP."""

import subprocess
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.adapters.environments import environment, lenient
from tests.serving import running

from treering import SessionHost

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).with_name("sdk_client.py")


async def see(python: Path, *arguments: str) -> Any:  # noqa: ANN401  # JSON
    """Return what the program saw."""
    done = await anyio.run_process(
        [str(python), str(PROGRAM), *arguments], env=lenient(), check=False, stderr=subprocess.PIPE
    )
    assert done.returncode == 0, done.stderr.decode()
    return msgspec.json.decode(done.stdout)


@pytest.mark.feature("A-31")
@pytest.mark.parametrize(
    ("release", "versions"), [("mcp==1.30.0", ["2025-11-25"]), ("mcp==2.3.0", ["2025-11-25", "2026-07-28"])]
)
async def test_a_client_of_the_sdk_looks_up_sessions(release: str, versions: list[str], tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    async with SessionHost(root) as host:
        session = await host.create("parser")
        await session.append_message("user", "Why does it time out? A timeout of 30 s?")
    python = environment("mcp", release)
    over_stdio = await see(python, "stdio", str(root))
    async with SessionHost(root) as host, running(host) as (_, port):
        over_http = await see(python, "http", f"http://127.0.0.1:{port}/mcp")
    for seen in (over_stdio, over_http):
        assert seen["versions"] == versions
        assert set(seen["updated"]) == {"treering://session/parser"}
        assert len(seen["updated"]) >= len(versions)
        answers = seen["answers"]
        assert answers["tools"][0] == "search"
        assert answers["search"]["found"][0]["session"] == "parser"
        assert [each["id"] for each in answers["list_sessions"]["sessions"]] == ["parser"]
        assert answers["read_session"] == answers["resource"]
        assert answers["tree"]["stretches"][0]["current"]
        assert answers["resources"] == ["treering://session/parser"]
