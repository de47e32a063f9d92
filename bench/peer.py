"""What a peer is: something that people would pick, and the jobs that it can do.

A peer is one file in `bench/peers` with a list `PEERS`. It derives from `Peer` and has a method for each job that it can
do, named by the job's verb::

    class Mine(Peer):
        name = "mine"
        durability = "the process"
        requirements = ("mine==1.2.3",)

        def append(self, job: Appends, space: Workspace) -> Sample: ...

Whatever is measured runs in a fresh process of an environment that has the peer's requirements, so the file imports
nothing but the standard library and `bench` until a method is called.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from .jobs import Job
from .timing import Sample
from .workspace import Workspace


class Peer:
    """Something that can be measured.

    Attributes:
        name: What the tables call it.
        durability: What an append has survived when its call returns.
        requirements: The packages that its own environment has, pinned; where there are none, it runs where we do.
        node_requirements: The packages of node that it needs, pinned.
        modules: The modules that have to be there, where it runs where we do.
        full_only: Runs that are not full leave it out, unless it is asked for.
    """

    name: str
    durability: str
    requirements: tuple[str, ...] = ()
    node_requirements: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    full_only: bool = False

    def absent(self) -> str | None:
        """Say why it cannot run here; None where it can."""
        missing = [name for name in self.modules if find_spec(name) is None]
        return f"{', '.join(missing)} is not installed" if missing else None

    def can(self, job: type[Job]) -> bool:
        """Tell whether it can do such a job."""
        return hasattr(self, job.verb)

    def do(self, job: Job, space: Workspace) -> Sample | None:
        """Do a job.

        Returns:
            The sample, or None where the job says nothing of this peer.
        """
        method: Callable[[Job, Workspace], Sample | None] = getattr(self, job.verb)
        return method(job, space)
