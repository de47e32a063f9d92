"""The description of the interface, tried out: whatever it allows is answered as it says, over a real process."""

import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from .processes import Server, running

SETTINGS = Path(__file__).with_name("schemathesis.toml")
KEPT = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"
STREAMS = r"/events|/ag-ui/"
TOKEN = "a-token-for-this-test-alone"
KNOWN = {"Authorization": f"Bearer {TOKEN}"}
HELLO = {"type": "message", "message": {"role": "user", "content": "Hello"}}


def tried(server: Server, *options: str) -> subprocess.CompletedProcess[str]:
    """Let schemathesis try out what a server's description says, with all its checks."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(SETTINGS), "run"]
    address = [f"{server.address}/openapi.json", "--exclude-path-regex", STREAMS]
    address += ["-H", f"Authorization: {KNOWN['Authorization']}"]
    return subprocess.run(
        [*command, *address, "--request-timeout", "90", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=SETTINGS.parent,
    )


def fill(server: Server) -> None:
    """Make a session, so that links lead somewhere."""
    with httpx2.Client(base_url=server.address, headers=KNOWN) as http:
        http.post("/v1/sessions", json={"id": "a", "key": "k:1"})
        for _ in range(5):
            http.post("/v1/sessions/a/entries", json=HELLO)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.feature("S-19")
def test_schemathesis_finds_nothing(tmp_path: Path, scale: float) -> None:
    with running(tmp_path / "root", environment={**os.environ, "TREERING_TOKEN": TOKEN}) as server:
        fill(server)
        described = httpx2.get(f"{server.address}/openapi.json")
        assert described.content == KEPT.read_bytes()
        assert described.json()["openapi"].startswith("3.1.")
        seed = os.environ.get("SEED")
        chosen = ["--seed", seed] if seed else ["--generation-deterministic"]
        done = tried(server, "--max-examples", str(max(2, round(100 * scale))), *chosen)
    assert done.returncode == 0, done.stdout[-20_000:]
    for phase in ("Coverage", "Fuzzing", "Stateful"):
        assert f"✅ {phase}" in done.stdout
