"""Programs that open a host in one task and close it in another: a notebook, a lifespan, a fixture of a session."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from starlette.applications import Starlette
from starlette.types import Message

from treering import SessionHost, plain_text

OPENS = """\
from treering import SessionHost
host = await SessionHost.start(ROOT)
session = await host.open("notebook")
"""
APPENDS = "await session.append_message('user', 'from a cell')"
SUBSCRIBES = """\
async with session.subscribe(after=0) as entries:
    async for entry in entries:
        print(entry.type, entry.seq)
        break
"""
CLOSES = "await host.aclose()"

FIXTURE = """
from collections.abc import AsyncIterator
from pathlib import Path
import pytest
from treering import SessionHost

@pytest.fixture(scope="session", params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param

@pytest.fixture(scope="session")
async def host(anyio_backend, tmp_path_factory) -> AsyncIterator[SessionHost]:
    host = await SessionHost.start(tmp_path_factory.mktemp("sessions"))
    yield host
    await host.aclose()

async def test_one(host):
    await (await host.open("a")).append_message("user", "one")

async def test_two(host):
    assert len(await (await host.open("a")).all_messages()) == 1
"""


@pytest.mark.parametrize("last", [CLOSES, "pass"], ids=["closed", "never closed"])
def test_a_cell_of_a_notebook_opens_the_next_appends_a_third_subscribes(root: Path, last: str) -> None:
    cells = [
        {"source": OPENS.replace("ROOT", repr(str(root)))},
        *({"source": each} for each in (APPENDS, SUBSCRIBES, last)),
    ]
    notebook = nbformat.from_dict(  # type: ignore[no-untyped-call]  # it has no types
        {
            "nbformat": 4,
            "nbformat_minor": 4,
            "metadata": {},
            "cells": [
                {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], **cell} for cell in cells
            ],
        }
    )
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    assert notebook.cells[2].outputs[0].text == "message 1\n"
    (file,) = root.glob("*.jsonl")
    assert "from a cell" in file.read_text()


@pytest.mark.parametrize("anyio_backend", [("asyncio", {}), ("trio", {})], ids=["asyncio", "trio"])
async def test_the_lifespan_of_an_application_opens_and_closes_a_host(root: Path) -> None:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        host = await SessionHost.start(root)
        await (await host.open("a")).append_message("user", "served")
        yield {"host": host}
        await host.aclose()

    app = Starlette(lifespan=lifespan)
    sent: list[Message] = []
    orders = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive() -> Message:
        return next(orders)

    async def send(message: Message) -> None:
        sent.append(message)

    await app({"type": "lifespan", "app": app, "state": {}}, receive, send)
    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    async with SessionHost(root) as host:
        assert [plain_text(message.content) for message in await (await host.load("a")).all_messages()] == ["served"]


def test_a_fixture_of_a_whole_session_of_tests_is_a_host(tmp_path: Path) -> None:
    (tmp_path / "test_agents.py").write_text(FIXTURE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nanyio_mode = auto\nfilterwarnings = error\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "anyio", str(tmp_path)]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # the plugins of these tests take seconds to load
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path, env=alone)
    assert "4 passed" in done.stdout, done.stdout + done.stderr
