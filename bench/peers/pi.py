"""pi's own `SessionManager` under node, which works synchronously on one session in one process.

pi 1.5.2 was published without a package that it depends on, so it cannot be installed in the normal way. Its session
module needs two small functions of that package; here a stand-in beside the unpacked module provides them. Everything
that is measured is pi's own code.
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
        package: The name of its node package.
        requirements: The node packages to install.
        full_only: Only full runs include it, unless it is named.
    """

    durability = "a process crash"

    def __init__(self, version: str, package: str, requirements: tuple[str, ...], *, full_only: bool = False) -> None:
        self.name = f"pi {version}"
        self.full_only = full_only
        self.node_requirements = requirements
        self._package = package

    def append(self, job: Appends, space: Workspace) -> Sample | None:
        """Append one message per call; to many sessions in turn."""
        return self._run(job, {}, space.new_folder()) if job.batch == 1 else None

    def open(self, job: Opens, space: Workspace) -> Sample | None:
        """Open a file in pi's own format."""
        return (
            None
            if job.prepared
            else self._run(job, {"file": _log(job.entries, job.compacted, space)}, space.new_folder())
        )

    def read(self, job: Reads, space: Workspace) -> Sample:
        """Open a file and build the context, which is the whole history."""
        return self._run(job, {"file": _log(job.entries, False, space)}, space.new_folder())

    def context(self, job: Contexts, space: Workspace) -> Sample:
        """Build the context of an open session."""
        return self._run(job, {"file": _log(job.entries, job.compacted, space)}, space.new_folder())

    def branch(self, job: Branches, space: Workspace) -> Sample:
        """Move the leaf to the middle of a copy of a long file, and append there."""
        return self._run(job, {"file": _log(job.entries, False, space)}, space.new_folder())

    def list(self, job: Lists, space: Workspace) -> Sample:
        """List the sessions of a folder; pi reads every file, warm or cold."""

        def make(folder: Path) -> None:
            self._run(job, {"type": "MakeLists"}, folder / "sessions")

        folder = space.cached_folder(f"pi-{job.sessions}-{job.entries}", make) / "sessions"
        return self._run(job, {"file": str(folder)}, space.new_folder())

    def _run(self, job: Job, more: Mapping[str, object], folder: Path) -> Sample:
        module = node_modules(self) / self._package / "dist" / "core" / "session-manager.js"
        job_json = json.dumps({**msgspec.to_builtins(job), **more})
        command = ("node", "--max-old-space-size=8192", str(_PROGRAM), str(module), job_json, str(folder))
        completed = subprocess.run(command, check=False, capture_output=True, text=True)
        if completed.returncode != 0:
            raise RuntimeError(completed.stderr.strip().splitlines()[-1])
        return msgspec.json.decode(completed.stdout, type=Sample)


def _log(entries: int, compacted: bool, space: Workspace) -> str:
    """Return a file in pi's format that holds one long path."""

    def make(folder: Path) -> None:
        at = entries - KEPT if compacted and entries > 2 * KEPT else 0
        parent = "null"
        with (folder / "bench.jsonl").open("w") as file:
            file.write(HEADER_OF_PI)
            for seq in range(1, entries + 1):
                own = f"{seq * 0x9E3779B1 % 2**32:08x}"
                if seq == at:
                    kept_id = f"{(seq - KEPT) * 0x9E3779B1 % 2**32:08x}"
                    line = COMPACTION_OF_PI.format(id=own, parent=parent, text=TEXT, kept=kept_id)
                else:
                    line = LINE_OF_PI.format(id=own, parent=parent, text=TEXT)
                file.write(line)
                parent = f'"{own}"'

    return str(space.cached_folder(f"pi-log-{entries}-{'compacted' if compacted else 'whole'}", make) / "bench.jsonl")


PEERS: list[Peer] = [
    Pi("0.73.1", "@mariozechner/pi-coding-agent", ("@mariozechner/pi-coding-agent@0.73.1",), full_only=True),
    Pi(
        "1.5.2",
        "@earendil-works/pi-coding-agent",
        ("unpacked:@earendil-works/pi-coding-agent@1.5.2", "cross-spawn@7.0.6"),
    ),
    Pi("1.6.0", "@earendil-works/pi-coding-agent", ("@earendil-works/pi-coding-agent@1.6.0",)),
]
