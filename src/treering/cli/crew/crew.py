"""The crew: agents that take one job after the other, endlessly, forget the oldest ones, and can be watched."""

from __future__ import annotations

import webbrowser
from collections import Counter, deque
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import anyio.to_thread
import click
import structlog

from ...actors.host.host import SessionHost
from ...actors.host.runtime import Limits
from ...actors.session.session import Session
from ...events.errors import ExtraMissing, SessionExists, TreeringError
from ...events.telemetry import failure_of, logger
from ..output import tell
from .job import Job
from .model import Pace
from .script import Script, Story

AGENTS = 20
"""The number of agents."""
KEPT_MAX = 60
"""The number of jobs that are done and whose sessions are kept; older ones are deleted."""

_BEGINS_S = 60.0
_RESTS_S = (5.0, 30.0)
_HOME = Path("/home/demo")
_BEHIND_S = 480.0
_LIMITS = Limits(cache_bytes_max=8 * 1024 * 1024)


class Crew:
    """Agents at work.

    Args:
        host: The host of their sessions.
        pace: How fast time passes.
        seed: Decides who says what; when it is said also depends on the machine.
    """

    def __init__(self, host: SessionHost, pace: Pace, seed: int) -> None:
        self._host = host
        self._pace = pace
        self._seed = seed
        self._script = Script.load()
        self._numbers: Counter[str] = Counter()
        self._done: deque[list[Session]] = deque()

    async def work(self) -> None:
        """Let all of them work until cancelled."""
        async with anyio.create_task_group() as tasks:
            for number in range(AGENTS):
                tasks.start_soon(self._live, number)

    async def _live(self, number: int) -> None:
        """Take one job after the other, each agent beginning with another story."""
        random = Random(f"{self._seed}/{number}")
        stories = self._script.stories
        await self._pace.sleep(random.uniform(0, _BEGINS_S))
        for turn in count(number):
            story = stories[turn % len(stories)]
            session = await self._open(story)
            sessions = [session]
            hire = partial(self._hire, sessions)
            job = Job(self._script, self._pace, random, session, story, hire)
            try:
                await job.run(random.sample(self._script.further, random.randint(0, len(self._script.further))))
            except TreeringError as error:  # such as that of a session which a visitor has deleted
                logger().warning("job_ended", session_id=session.id, **failure_of(error))
            await self._keep(sessions)
            await self._pace.sleep(random.uniform(*_RESTS_S))

    async def _open(self, story: Story) -> Session:
        """Make a session for a story, with the next number that is free."""
        while True:
            self._numbers[story.name] += 1
            with suppress(SessionExists):  # that of an earlier demo in this directory
                return await self._host.create(f"{story.name}-{self._numbers[story.name]}", cwd=_HOME / story.project)

    async def _hire(self, sessions: list[Session], name: str, parent: Session) -> Session:
        """Make the session of a sub-agent."""
        session = await self._host.create(
            f"{parent.id}-{name}-{len(sessions)}",
            cwd=parent.header.cwd,
            parent_session=parent.id,
            parent_entry=parent.leaf_id,
        )
        sessions.append(session)
        return session

    async def _keep(self, sessions: list[Session]) -> None:
        """Keep the sessions of a job, and delete those of the oldest one if there are too many."""
        self._done.append(sessions)
        while len(self._done) > KEPT_MAX:
            for each in self._done.popleft():
                await self._host.delete(each)  # not by its id, which begins the ids of others


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
            tasks.start_soon(lambda: anyio.to_thread.run_sync(webbrowser.open, address))

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("error"))  # no line for each request
    pace = Pace(_BEHIND_S)
    async with SessionHost(folder, clock=pace, limits=_LIMITS) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(Crew(host, pace, seed).work)
        await pace.catch_up()
        await serve(app(host), listening, started=started)
        tasks.cancel_scope.cancel()
