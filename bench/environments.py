"""The environments that peers run in: a virtual environment for each set of requirements, made once and kept.

They lie in `.bench` in the checkout. Without one, the peers that need it are reported as absent, never as slow; whether to
spend the minutes that installing takes is said by `python -m bench prepare`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

from .peer import Peer

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".bench"
_HARNESS = ("msgspec", "anyio", "uvloop; sys_platform != 'win32'")
"""What the harness itself needs in every environment."""

UNPACKED = "unpacked:"
"""Marks a package of node that is laid down as it is, without what it depends on."""

_STAND_IN = """\
import { randomUUID } from "node:crypto";
export const uuidv7 = () => randomUUID();
export const getCurrentSystemMessage = () => undefined;
"""


def folder_of(peer: Peer) -> Path:
    """Return where a peer's environment lies."""
    key = hashlib.sha256("\n".join((*_HARNESS, *peer.requirements, *peer.node_requirements)).encode()).hexdigest()[:8]
    module = type(peer).__module__.rsplit(".", 1)[-1]
    return FOLDER / f"{module}-{key}"


def needs_environment(peer: Peer) -> bool:
    """Tell whether a peer runs in an environment of its own."""
    return bool(peer.requirements or peer.node_requirements)


def interpreter(peer: Peer) -> str:
    """Return the Python that a peer runs on."""
    return str(folder_of(peer) / "bin" / "python") if peer.requirements else sys.executable


def node_modules(peer: Peer) -> Path:
    """Return where a peer's packages of node lie."""
    return folder_of(peer) / "node_modules"


def why_absent(peer: Peer) -> str | None:
    """Say why a peer cannot run here; None where it can."""
    if peer.node_requirements and shutil.which("node") is None:
        return "node is not here"
    if needs_environment(peer) and not (folder_of(peer) / "ready").exists():
        return f"not installed: python -m bench prepare '{peer.name}'"
    return peer.absent()


def prepare(peer: Peer) -> str | None:
    """Make a peer's environment where it is not there yet; return why that failed, or None."""
    folder = folder_of(peer)
    if not needs_environment(peer) or (folder / "ready").exists():
        return None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    failed = None
    if peer.requirements:
        venv.create(folder, with_pip=True)
        pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check")
        failed = _run((*pip, *_HARNESS, *peer.requirements))
    if failed is None and peer.node_requirements:
        failed = _install_for_node(folder, peer.node_requirements)
    if failed is None:
        (folder / "ready").touch()
    return failed


def _install_for_node(folder: Path, requirements: tuple[str, ...]) -> str | None:
    npm = ("npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error")
    whole = [each for each in requirements if not each.startswith(UNPACKED)]
    failed = _run((*npm, *whole)) if whole else None
    for each in requirements:
        if failed is None and each.startswith(UNPACKED):
            failed = _unpack(folder, each.removeprefix(UNPACKED))
    return failed


def _unpack(folder: Path, requirement: str) -> str | None:
    """Lay a package down without what it depends on, and beside it what its modules of sessions take from elsewhere."""
    failed = _run(("npm", "pack", requirement, "--pack-destination", str(folder), "--loglevel=error"))
    if failed is not None:
        return failed
    (packed,) = folder.glob("*.tgz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    name = requirement.rpartition("@")[0]
    shutil.move(folder / "unpacked" / "package", folder / "node_modules" / name)
    stand_in = folder / "node_modules" / Path(name).parent / "pi-ai"
    stand_in.mkdir(parents=True)
    (stand_in / "package.json").write_text('{"name":"stand-in","type":"module","main":"index.js"}')
    (stand_in / "index.js").write_text(_STAND_IN)
    return None


def _run(command: tuple[str, ...]) -> str | None:
    try:
        ended = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, "CI": "1"})
    except OSError as error:
        return str(error)
    return None if ended.returncode == 0 else (ended.stderr.strip().splitlines() or ["it failed without a word"])[-1]
