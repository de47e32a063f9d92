"""A server on a real socket of this machine, over a host that the test holds too."""

import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from treering import SessionHost
from treering.server import Application, app
from treering.server.serving import listen, serve


def certificate_of(name: str, folder: Path) -> tuple[Path, Path]:
    """Make a certificate for a name and for this machine, signed by itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here to make a certificate")
    file, key = folder / "server.pem", folder / "server.key"
    names = f"subjectAltName=DNS:{name},IP:127.0.0.1"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-addext", names]
    subprocess.run([*command, "-keyout", str(key), "-out", str(file)], check=True, capture_output=True)
    return file, key


@asynccontextmanager
async def running(
    host: SessionHost,
    *,
    port: int = 0,
    serving: Mapping[str, Any] | None = None,
    **options: Any,  # noqa: ANN401  # those of `Application`
) -> AsyncIterator[tuple[Application, int]]:
    """Serve an open host as long as the block runs, at any free port if it is 0; yield what answers, and its port."""
    listening = listen("127.0.0.1", port, None)
    application = app(host, **options)
    started, stopping = anyio.Event(), anyio.Event()
    run = partial(serve, application, listening, until=stopping.wait, started=started.set, **(serving or {}))
    # The socket is closed here as well, so that a test that fails leaves none for another one to be warned of.
    with listening:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await started.wait()
            yield application, listening.getsockname()[1]
            stopping.set()
