"""Environments of frameworks, each with this checkout, and the sources of a release, whose tests run in place.

They are in `.frameworks` in the checkout, made once and kept. Releases are pinned by the hash of their source
distribution, since what their tests ask is part of what is proven.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import venv
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
FOLDER = PROJECT / ".frameworks"


def environment(name: str, *requirements: str, extras: str = "", newest: bool = False) -> Path:
    """Return the interpreter of an environment, which is made if it is not there.

    Args:
        name: What the folder is called.
        *requirements: What is installed beside this checkout.
        extras: The extras of this checkout, such as "[server]".
        newest: Whether to look for newer releases of the requirements each time.
    """
    folder = FOLDER / f"{name}-{hashlib.sha256(repr(requirements).encode()).hexdigest()[:8]}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        pip(python, "install", "-e", f"{PROJECT}{extras}", *requirements)
        (folder / "ready").touch()
    elif newest:
        pip(python, "install", "--upgrade", *requirements)
    return python


def sources(python: Path, release: str, sha256: str) -> Path:
    """Return the folder of a release's source distribution, which is downloaded and unpacked if it is not there.

    Args:
        python: An interpreter with pip.
        release: The package and its version, such as "a-package==1.2.0".
        sha256: The hash of the source distribution.
    """
    folder = FOLDER / release
    if not folder.exists():
        downloaded = FOLDER / "downloaded" / release
        shutil.rmtree(downloaded, ignore_errors=True)
        downloaded.mkdir(parents=True)
        pinned = downloaded / "pinned.txt"
        pinned.write_text(f"{release} --hash=sha256:{sha256}\n")
        pip(python, "download", "--no-deps", "--no-binary", ":all:", "-d", str(downloaded), "-r", str(pinned))
        (archive,) = downloaded.glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(downloaded, filter="data")
        (unpacked,) = (each for each in downloaded.iterdir() if each.is_dir())
        unpacked.rename(folder)
    return folder


def lenient(**more: str) -> dict[str, str]:
    """Return this process's environment, in which warnings of other programs are no errors."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"} | more


def pip(python: Path, *arguments: str) -> None:
    """Run pip, whose words are shown if it fails."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=lenient())
    assert done.returncode == 0, done.stderr


def node_modules(name: str, *packages: str) -> Path:
    """Return a folder with packages of npm, which are installed if they are not there.

    Args:
        name: What the folder is called.
        *packages: The packages with their versions, such as "a-package@1.2.0".
    """
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    folder = FOLDER / f"{name}-{hashlib.sha256(repr(packages).encode()).hexdigest()[:8]}"
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error", *packages]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (folder / "ready").touch()
    return folder
