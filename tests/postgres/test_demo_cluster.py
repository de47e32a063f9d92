"""`treering demo --cluster`: a host is killed, and the conversation goes on, as the viewer shows."""

from pathlib import Path

import anyio
import click
import httpx2
import pytest
from tests.cli.conftest import Cli

from treering.cli.commands import demo_cluster
from treering.cli.commands.demo_cluster import SESSION, Story, play_cluster
from treering.stores.postgres import local_server

from .conftest import programs

pytestmark = pytest.mark.feature("C-25")


async def test_one_of_three_hosts_is_killed_and_the_talk_goes_on_in_the_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert programs()
    shown: list[str] = []
    goes_on = anyio.Event()
    counts: list[int] = []

    def echo(line: str) -> None:
        shown.append(line.strip())
        if "goes on: " in line:
            goes_on.set()

    monkeypatch.setattr(click, "echo", echo)
    monkeypatch.setattr(demo_cluster, "LEASE_S", 1.0)
    async with anyio.create_task_group() as tasks, httpx2.AsyncClient(timeout=30) as http:
        tasks.start_soon(play_cluster, 0, False, Story(pause_s=0.02, goes_on=True))
        await goes_on.wait()
        viewer = shown[-1].removeprefix("The conversation goes on: ").split()[0]
        address = shown[0]
        page = await http.get(viewer)
        assert page.is_success
        assert page.headers["content-type"].startswith("text/html")
        (row,) = (await http.get(f"{address}/v1/sessions")).json()["items"]
        assert (row["id"], row["title"]) == (SESSION, "A voyage")
        while len(set(counts)) < 3:
            found = await http.get(f"{address}/v1/sessions/{SESSION}/entries", params={"limit": 1000})
            counts.append(len(found.json()["items"]))
        tasks.cancel_scope.cancel()
    assert counts == sorted(counts)
    assert min(counts) >= 13
    addresses = [line.split()[0] for line in shown if line.startswith("http://127.0.0.1:")]
    assert len(set(addresses)) == 3
    killed = next(line.split()[0] for line in shown if " is gone; " in line)
    heir = next(line.split()[0] for line in shown if " took the conversation over" in line)
    assert killed != heir
    assert {killed, heir} < {each.rpartition(":")[2] for each in addresses}
    assert any(line.startswith("13 messages acknowledged, 13 in the conversation: each once") for line in shown)
    assert any(line.endswith("saw 13, without a gap: yes") for line in shown)
    for each in addresses:
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(each)


def test_without_postgresql_the_demo_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_server, "find_programs", lambda: None)
    cli = Cli(tmp_path)
    result = cli("demo", "--cluster", "--port", "0")
    assert result.exit_code == 1
    assert "apt-get install postgresql" in result.output
    result = cli("demo", "--cluster", "--dir", tmp_path / "folder")
    assert result.exit_code == 1
    assert "--dir" in result.output
