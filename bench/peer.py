"""Peers: alternatives that people would choose, and the jobs that each can do.

A peer is a file in `bench/peers` with a list `PEERS`. Its class derives from `Peer` and has a method for each job that
it can do, named after the job's verb::

    class Mine(Peer):
        name = "mine"
        durability = "a process crash"
        requirements = ("mine==1.2.3",)

        def append(self, job: Appends, space: Workspace) -> Sample: ...

Each measurement runs in a fresh process in an environment with the peer's requirements, while the harness imports the
file without them: outside of methods, import only the standard library and `bench`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from .jobs import Job
from .timing import Sample
from .workspace import Workspace


class Peer:
    """A program or library that can be measured.

    Attributes:
        name: Its name in the tables.
        durability: What an append survives once its call has returned.
        requirements: The pinned packages of its own environment; if empty, it runs in the harness's environment.
        node_requirements: The pinned node packages that it needs.
        with_treering: Whether its environment has what treering needs, too, so that an adapter can run there.
        modules: The modules that it needs in the harness's environment.
        full_only: Only full runs include it, unless it is named.
    """

    name: str
    durability: str
    requirements: tuple[str, ...] = ()
    node_requirements: tuple[str, ...] = ()
    with_treering: bool = False
    modules: tuple[str, ...] = ()
    full_only: bool = False

    def why_absent(self) -> str | None:
        """Return why it cannot run here, or None if it can."""
        missing = [name for name in self.modules if find_spec(name) is None]
        return f"{', '.join(missing)} is not installed" if missing else None

    def can(self, job: type[Job]) -> bool:
        """Return whether it can do a kind of job."""
        return hasattr(self, job.verb)

    def do(self, job: Job, space: Workspace) -> Sample | None:
        """Do a job.

        Returns:
            The sample, or None if the job does not apply to this peer.
        """
        method: Callable[[Job, Workspace], Sample | None] = getattr(self, job.verb)
        return method(job, space)
