"""pi's own `SessionManager`, under node: what it does synchronously for one session in one process.

pi 1.5.2 is published without a package that it depends on, so it cannot be installed as its users have it. Its module of
sessions needs two small functions of that package, which stand beside the unpacked module here: what is measured is pi's
own code.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ..environments import node_modules
from ..jobs import Appends, Branches, Contexts, Job, Lists, Opens, Reads
from ..peer import Peer
from ..timing import Sample
from ..workspace import COMPACTION_OF_PI, HEADER_OF_PI, KEPT, LINE_OF_PI, TEXT, Workspace

_PROGRAM = Path(__file__).with_name("pi.mjs")


class Pi(Peer):
    """One version of pi.

    Args:
        version: The version.
        package: Its package of node.
        requirements: What is installed.
    """

    durability = "the process"

    def __init__(self, version: str, package: str, requirements: tuple[str, ...]) -> None:
        self.name = f"pi {version}"
        self.node_requirements = requirements
        self._package = package

    def append(self, job: Appends, space: Workspace) -> Sample | None:
        """Append one message a call; where there are many sessions, in turn."""
        return self._run(job, {}, space.fresh()) if job.batch == 1 else None

    def open(self, job: Opens, space: Workspace) -> Sample | None:
        """Open a file of pi's own format."""
        return (
            None if job.prepared else self._run(job, {"file": _log(job.entries, job.compacted, space)}, space.fresh())
        )

    def read(self, job: Reads, space: Workspace) -> Sample:
        """Open a file and build the context, which is all of it."""
        return self._run(job, {"file": _log(job.entries, False, space)}, space.fresh())

    def context(self, job: Contexts, space: Workspace) -> Sample:
        """Build the context of an open session."""
        return self._run(job, {"file": _log(job.entries, job.compacted, space)}, space.fresh())

    def branch(self, job: Branches, space: Workspace) -> Sample:
        """Move the leaf to the middle and append, in a copy of a long file."""
        return self._run(job, {"file": _log(job.entries, False, space)}, space.fresh())

    def list(self, job: Lists, space: Workspace) -> Sample:
        """List the sessions of a folder; it reads every file, warm or not."""

        def make(folder: Path) -> None:
            self._run(job, {"type": "MakeLists"}, folder / "sessions")

        folder = space.kept(f"pi-{job.sessions}-{job.entries}", make) / "sessions"
        return self._run(job, {"file": str(folder)}, space.fresh())

    def _run(self, job: Job, more: Mapping[str, object], folder: Path) -> Sample:
        module = node_modules(self) / self._package / "dist" / "core" / "session-manager.js"
        given = json.dumps({**msgspec.to_builtins(job), **more})
        command = ("node", "--max-old-space-size=8192", str(_PROGRAM), str(module), given, str(folder))
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        if ended.returncode != 0:
            raise RuntimeError(ended.stderr.strip().splitlines()[-1])
        return msgspec.json.decode(ended.stdout, type=Sample)


def _log(entries: int, compacted: bool, space: Workspace) -> str:
    """Return a file of pi's format, of one long path."""

    def make(folder: Path) -> None:
        at = entries - KEPT if compacted and entries > 2 * KEPT else 0
        parent = "null"
        with (folder / "bench.jsonl").open("w") as file:
            file.write(HEADER_OF_PI)
            for seq in range(1, entries + 1):
                own = f"{seq * 0x9E3779B1 % 2**32:08x}"
                if seq == at:
                    kept = f"{(seq - KEPT) * 0x9E3779B1 % 2**32:08x}"
                    line = COMPACTION_OF_PI.format(id=own, parent=parent, text=TEXT, kept=kept)
                else:
                    line = LINE_OF_PI.format(id=own, parent=parent, text=TEXT)
                file.write(line)
                parent = f'"{own}"'

    return str(space.kept(f"pi-log-{entries}-{'compacted' if compacted else 'whole'}", make) / "bench.jsonl")


PEERS: list[Peer] = [
    Pi("0.73.1", "@mariozechner/pi-coding-agent", ("@mariozechner/pi-coding-agent@0.73.1",)),
    Pi(
        "1.5.2",
        "@earendil-works/pi-coding-agent",
        ("unpacked:@earendil-works/pi-coding-agent@1.5.2", "cross-spawn@7.0.6"),
    ),
]
