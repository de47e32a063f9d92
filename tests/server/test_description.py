"""The description of the interface, tried out: whatever it allows is answered as it says, over a real process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from .processes import Server, running

SETTINGS = Path(__file__).with_name("schemathesis.toml")
STREAMS = r"/events"
HELLO = {"type": "message", "message": {"role": "user", "content": "Hello"}}


def tried(server: Server, *options: str) -> subprocess.CompletedProcess[str]:
    """Let schemathesis try out what a server's description says, with all its checks."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(SETTINGS), "run"]
    address = [f"{server.address}/openapi.json", "--exclude-path-regex", STREAMS]
    return subprocess.run(
        [*command, *address, "--generation-deterministic", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=SETTINGS.parent,
    )


def fill(server: Server) -> None:
    """Make a session, so that links lead somewhere."""
    with httpx2.Client(base_url=server.address) as http:
        http.post("/v1/sessions", json={"id": "a", "key": "k:1"})
        for _ in range(5):
            http.post("/v1/sessions/a/entries", json=HELLO)


def links_of(description: str) -> int:
    document = json.loads(description)
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    return sum(len(reply.get("links", {})) for each in operations for reply in each["responses"].values())


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.feature("S-19")
def test_schemathesis_finds_nothing(tmp_path: Path, scale: float) -> None:
    with running(tmp_path / "root") as server:
        fill(server)
        done = tried(server, "--max-examples", str(max(2, round(100 * scale))))
    assert done.returncode == 0, done.stdout[-20_000:]
    assert "Stateful" in done.stdout
