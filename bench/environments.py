"""The environments of peers: one virtual environment for each set of requirements, created once and kept.

They are in `.bench` in the checkout. Peers whose environment is missing are reported as absent, never as slow.
Installing takes minutes, so only `python -m bench prepare` does it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
from pathlib import Path

from .peer import Peer

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".bench"
_HARNESS = ("msgspec", "anyio", "uvloop; sys_platform != 'win32'")
"""What the harness itself needs in every environment."""

UNPACKED = "unpacked:"
"""Prefix of a node package that is unpacked as it is, without its dependencies."""

_STAND_IN = """\
import { randomUUID } from "node:crypto";
export const uuidv7 = () => randomUUID();
export const getCurrentSystemMessage = () => undefined;
"""


def folder_of(peer: Peer) -> Path:
    """Return the folder of a peer's environment."""
    key = hashlib.sha256("\n".join((*_packages(peer), *peer.node_requirements)).encode()).hexdigest()[:8]
    module = type(peer).__module__.rsplit(".", 1)[-1]
    return FOLDER / f"{module}-{key}"


def needs_environment(peer: Peer) -> bool:
    """Return whether a peer needs its own environment."""
    return bool(peer.requirements or peer.node_requirements)


def interpreter(peer: Peer) -> str:
    """Return the path of the Python interpreter that runs a peer."""
    return str(folder_of(peer) / "bin" / "python") if peer.requirements else sys.executable


def node_modules(peer: Peer) -> Path:
    """Return the folder of a peer's node packages."""
    return folder_of(peer) / "node_modules"


def why_absent(peer: Peer) -> str | None:
    """Return why a peer cannot run here, or None if it can."""
    if peer.node_requirements and shutil.which("node") is None:
        return "node is not installed"
    if needs_environment(peer) and not (folder_of(peer) / "ready").exists():
        return f"not installed: run python -m bench prepare '{peer.name}'"
    return peer.why_absent()


def prepare(peer: Peer) -> str | None:
    """Create a peer's environment unless it exists; return why that failed, or None."""
    folder = folder_of(peer)
    if not needs_environment(peer) or (folder / "ready").exists():
        return None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    error = None
    if peer.requirements:
        venv.create(folder, with_pip=True)
        pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check")
        error = _run((*pip, *_packages(peer)))
    if error is None and peer.node_requirements:
        error = _install_for_node(folder, peer.node_requirements)
    if error is None:
        (folder / "ready").touch()
    return error


def _packages(peer: Peer) -> tuple[str, ...]:
    """Return all that pip installs in a peer's environment."""
    return (*_HARNESS, *(_needed_by_treering() if peer.with_treering else ()), *peer.requirements)


def _needed_by_treering() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed: list[str] = project["dependencies"]
    return needed


def _install_for_node(folder: Path, requirements: tuple[str, ...]) -> str | None:
    npm = ("npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error")
    installable = [each for each in requirements if not each.startswith(UNPACKED)]
    error = _run((*npm, *installable)) if installable else None
    for each in requirements:
        if error is None and each.startswith(UNPACKED):
            error = _unpack(folder, each.removeprefix(UNPACKED))
    return error


def _unpack(folder: Path, requirement: str) -> str | None:
    """Unpack a package without its dependencies, and add a stand-in for those that its session module imports."""
    error = _run(("npm", "pack", requirement, "--pack-destination", str(folder), "--loglevel=error"))
    if error is not None:
        return error
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
        completed = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, "CI": "1"})
    except OSError as error:
        return str(error)
    if completed.returncode == 0:
        return None
    return (completed.stderr.strip().splitlines() or [f"{command[0]} failed without an error message"])[-1]
