"""`treering follow` as another process: what it prints when a file grows, and how it ends."""

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


def test_existing_entries_are_printed_and_then_new_ones_whatever_becomes_of_the_file(cli: Cli, branched: Path) -> None:
    at = branched.stat().st_size
    other = branched.with_suffix(".new")
    other.write_bytes(branched.read_bytes().split(b"\n")[0] + b"\n")
    append(other, line_of_message("z", None, "Another history", 1))
    with cli.spawn("follow", branched, "--json", "--from-start") as process:

        def printed(count: int) -> list[tuple[str, int]]:
            entries = [json.loads(read_line(process)) for _ in range(count)]
            return [(each["id"], each["seq"]) for each in entries]

        assert printed(5) == [("q", 1), ("x", 2), ("a", 3), ("m", 4), ("l", 5)]
        append(branched, b"garbage\n", line_of_message("n", "l", "New", 7))
        assert printed(1) == [("n", 7)]
        line = json.dumps(line_of_message("o", "n", "Newer", 8)).encode() + b"\n"
        append(branched, line[:40])  # it is printed once it is complete
        append(branched, line[40:], line_of_message("p", "o", "Newest", 9))
        assert printed(2) == [("o", 8), ("p", 9)]
        other.replace(branched)
        assert printed(1) == [("z", 1)]
        out, err = interrupt(process)
    damaged, replaced = err.decode().splitlines()
    assert damaged == f"treering: warning: {branched}:7:{at}: this line is not a JSON object and was skipped"
    assert f"{branched}: the file was replaced or truncated" in replaced
    assert (process.returncode, out) == (0, b"")


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
