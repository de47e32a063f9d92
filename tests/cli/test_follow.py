"""`treering follow`, as a real process: what it prints as another one writes, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

Say = Callable[..., dict[str, Any]]
Spawn = Callable[..., "subprocess.Popen[bytes]"]


def append(path: Path, *lines: dict[str, Any] | bytes) -> None:
    with path.open("ab") as file:
        for line in lines:
            file.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")


def interrupt(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=30)


def read_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def test_from_the_start_and_then_live(spawn: Spawn, branched: Path, say: Say) -> None:
    with spawn("follow", branched, "--json", "--from-start") as process:
        there = [json.loads(read_line(process))["id"] for _ in range(5)]
        assert there == ["q", "x", "a", "m", "l"]
        append(branched, say("n", "l", "New", 6))
        came = json.loads(read_line(process))
        assert (came["id"], came["seq"]) == ("n", 6)
        assert interrupt(process) == (b"", b"")
    assert process.returncode == 0


def test_it_ends_when_nobody_reads_on_though_nothing_comes(spawn: Spawn, branched: Path) -> None:
    with spawn("follow", branched, "--from-start") as process:
        read_line(process)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_only_what_comes(spawn: Spawn, branched: Path, say: Say) -> None:
    with spawn("follow", branched) as process:
        number, line = 5, b""
        while not line:  # it is not known when it has begun: each entry before that is one that was there
            number += 1
            append(branched, say(f"n{number}", None, f"number {number}", number))
            line = first_of(process)
        assert b"user: number " in line
        assert b"crossroads" not in line
        _, err = interrupt(process)
        assert err == b""
    assert process.returncode == 0


def first_of(process: subprocess.Popen[bytes]) -> bytes:
    """Return what there is to read within a moment."""
    import select

    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], 0.2)
    return os.read(process.stdout.fileno(), 65536) if ready else b""


def test_half_a_line_is_not_shown_before_it_is_whole(spawn: Spawn, branched: Path, say: Say) -> None:
    line = json.dumps(say("n", "l", "New", 6)).encode() + b"\n"
    with spawn("follow", branched, "--json", "--from-start") as process:
        for _ in range(5):
            read_line(process)
        append(branched, line[:40])
        append(branched, line[40:], say("o", "n", "Newer", 7))
        assert [json.loads(read_line(process))["id"] for _ in range(2)] == ["n", "o"]
        interrupt(process)
    assert process.returncode == 0


def test_damage_that_comes_is_a_warning(spawn: Spawn, branched: Path, say: Say) -> None:
    at = branched.stat().st_size
    with spawn("follow", branched, "--json", "--from-start") as process:
        for _ in range(5):
            read_line(process)
        append(branched, b"garbage\n", say("n", "l", "New", 7))
        assert json.loads(read_line(process))["seq"] == 7
        _, err = interrupt(process)
    expected = f"treering: warning: {branched}:7:{at}: this line is not a JSON object and was skipped\n"
    assert err.decode() == expected


def test_a_file_that_is_replaced_is_followed_from_its_start(spawn: Spawn, branched: Path, say: Say) -> None:
    with spawn("follow", branched, "--json", "--from-start") as process:
        for _ in range(5):
            read_line(process)
        header = branched.read_bytes().split(b"\n")[0] + b"\n"
        other = branched.with_suffix(".new")
        other.write_bytes(header)
        append(other, say("z", None, "Another history", 1))
        other.replace(branched)
        assert json.loads(read_line(process))["id"] == "z"
        _, err = interrupt(process)
    assert f"{branched}: the file was replaced or truncated" in err.decode()
    assert process.returncode == 0
