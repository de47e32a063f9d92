"""`treering demo --serve`: agents at work on a real host, behind the real server, for somebody who looks at it."""

from __future__ import annotations

import webbrowser

import anyio
import click
import structlog

from ...actors.host.host import SessionHost
from ...actors.host.runtime import Limits
from ...events.errors import ExtraMissing
from ..crew.crew import AGENTS, Crew
from ..crew.model import Pace
from ..output import tell

_BEHIND_S = 480.0
_LIMITS = Limits(cache_bytes_max=8 * 1024 * 1024)


async def serve_demo(folder: str, port: int, seed: int, opens: bool) -> None:
    """Let agents work and serve their sessions, until SIGTERM or Ctrl-C.

    Raises:
        ExtraMissing: The server's packages are not installed.
        InvalidInput: The port cannot be used.
    """
    try:
        from ...server.application import app
        from ...server.serving import listen, serve
    except ImportError as error:
        raise ExtraMissing("the server needs more packages: pip install 'treering[server]'") from error

    listening = listen("127.0.0.1", port, None)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"

    def started() -> None:
        click.echo(address)
        tell(f"{AGENTS} agents are at work, by a script: open the address; Ctrl-C ends it")
        if opens:
            webbrowser.open(address)

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("error"))  # no line for each request
    pace = Pace(_BEHIND_S)
    async with SessionHost(folder, clock=pace, limits=_LIMITS) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(Crew(host, pace, seed).work)
        await pace.catch_up()
        await serve(app(host), listening, started=started)
        tasks.cancel_scope.cancel()
