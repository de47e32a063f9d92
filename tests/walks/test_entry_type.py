"""The walk to a new entry type: what CONTRIBUTING.md says is all that a copy of the library needs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .page import CHECKOUT, code_of

PACKAGES = ("events", "projections", "actors", "src")
USES = Path(__file__).with_name("uses_of_a_note.py")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Make a copy of the library that has the type; with its bytecode, as compiling all of it takes seconds."""
    for package in PACKAGES:
        shutil.copytree(CHECKOUT / package, tmp_path / package, symlinks=True)
    entries = tmp_path / "events" / "entries"
    records = entries / "records.py"
    records.write_text(records.read_text() + "\n\n" + code_of("Add an entry type"))
    table = entries / "table.py"
    listed = table.read_text().replace("    | ContextEditEntry\n)", "    | ContextEditEntry\n    | NoteEntry\n)")
    assert listed != table.read_text()
    table.write_text(listed.replace("    ModelChangeEntry,\n", "    ModelChangeEntry,\n    NoteEntry,\n", 1))
    return tmp_path


def test_all_rooms_know_a_type_that_was_declared(copy: Path) -> None:
    command = [sys.executable, "-P", "-W", "error", str(USES), str(copy)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 0, ran.stderr
