"""Installs treering from a checkout into a folder, as pip does it from a wheel, without a network."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PACKAGES = ["actors", "events", "projections"]


def install(folder: Path) -> Path:
    """Build a wheel of the checkout, install it alone, and return the folder with what is in it."""
    checkout, site = folder / "checkout", folder / "site"
    left_out = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(PROJECT / "src", checkout / "src", symlinks=True, ignore=left_out)
    for package_name in PACKAGES:
        shutil.copytree(PROJECT / package_name, checkout / package_name, ignore=left_out)
    for file in ["pyproject.toml", "README.md", "LICENSE"]:
        shutil.copy(PROJECT / file, checkout)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-compile"]
    command: list[str | Path] = [*pip, "--no-deps", "--no-index", "--no-build-isolation", "--target", site, checkout]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})  # those are of pip itself
    return site
