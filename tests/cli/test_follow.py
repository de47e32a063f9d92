"""`treering follow` as another process: what it prints when a file grows, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from .conftest import Cli, line_of_message


def append(path: Path, *lines: dict[str, Any] | bytes) -> None:
    with path.open("ab") as file:
        for line in lines:
            file.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")


def interrupt(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=60)


def read_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def test_existing_entries_are_printed_and_then_new_ones(cli: Cli, branched: Path) -> None:
    with cli.spawn("follow", branched, "--json", "--from-start") as process:
        existing = [json.loads(read_line(process))["id"] for _ in range(5)]
        assert existing == ["q", "x", "a", "m", "l"]
        append(branched, line_of_message("n", "l", "New", 6))
        added = json.loads(read_line(process))
        assert (added["id"], added["seq"]) == ("n", 6)
        assert interrupt(process) == (b"", b"")
    assert process.returncode == 0


def test_the_command_ends_when_its_output_is_closed_even_without_new_entries(cli: Cli, branched: Path) -> None:
    with cli.spawn("follow", branched, "--from-start") as process:
        read_line(process)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_without_from_start_only_new_entries_are_printed(cli: Cli, branched: Path) -> None:
    with cli.spawn("follow", branched) as process:
        number, line = 5, b""
        while not line:  # entries that are appended before the command has begun are not printed
            number += 1
            append(branched, line_of_message(f"n{number}", None, f"number {number}", number))
            line = read_available(process)
        assert b"user: number " in line
        assert b"crossroads" not in line
        _, err = interrupt(process)
        assert err == b""
    assert process.returncode == 0


def read_available(process: subprocess.Popen[bytes]) -> bytes:
    """Read the output that comes within a short time; empty if there is none."""
    import select

    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], 0.2)
    return os.read(process.stdout.fileno(), 65536) if ready else b""


def test_an_unfinished_line_is_printed_once_it_is_complete(cli: Cli, branched: Path) -> None:
    line = json.dumps(line_of_message("n", "l", "New", 6)).encode() + b"\n"
    with cli.spawn("follow", branched, "--json", "--from-start") as process:
        for _ in range(5):
            read_line(process)
        append(branched, line[:40])
        append(branched, line[40:], line_of_message("o", "n", "Newer", 7))
        assert [json.loads(read_line(process))["id"] for _ in range(2)] == ["n", "o"]
        interrupt(process)
    assert process.returncode == 0


def test_a_damaged_line_is_a_warning(cli: Cli, branched: Path) -> None:
    at = branched.stat().st_size
    with cli.spawn("follow", branched, "--json", "--from-start") as process:
        for _ in range(5):
            read_line(process)
        append(branched, b"garbage\n", line_of_message("n", "l", "New", 7))
        assert json.loads(read_line(process))["seq"] == 7
        _, err = interrupt(process)
    expected = f"treering: warning: {branched}:7:{at}: this line is not a JSON object and was skipped\n"
    assert err.decode() == expected


def test_a_replaced_file_is_printed_from_its_start(cli: Cli, branched: Path) -> None:
    with cli.spawn("follow", branched, "--json", "--from-start") as process:
        for _ in range(5):
            read_line(process)
        header = branched.read_bytes().split(b"\n")[0] + b"\n"
        other = branched.with_suffix(".new")
        other.write_bytes(header)
        append(other, line_of_message("z", None, "Another history", 1))
        other.replace(branched)
        assert json.loads(read_line(process))["id"] == "z"
        _, err = interrupt(process)
    assert f"{branched}: the file was replaced or truncated" in err.decode()
    assert process.returncode == 0
