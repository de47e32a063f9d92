"""`treering follow --programs`: a list at a terminal that is kept up to date, and lines elsewhere."""

import json
import signal
from pathlib import Path

import httpx2
import pytest
from tests.programs.homes import GROVE, Machine, append, claude_line

from .conftest import Cli


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path / "home")
    machine.fill()
    for name, value in machine.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.delenv("PI_CODING_AGENT_DIR", raising=False)
    return machine


def test_a_terminal_shows_a_list_that_is_kept_up_to_date(cli: Cli, machine: Machine) -> None:
    terminal = cli.terminal("follow", "--programs", columns=110, lines=10)
    first = terminal.until("Sessions on this machine", "Planted.", "Oven test", "Rings", without="still looking")
    assert first[1].startswith("○ Claude Code  Plant the pears.")  # it changed last
    assert "~/" not in first[1]
    assert "/home/mara/grove" in first[1]
    assert len(first) <= 10
    append(machine.growing, claude_line(3, "And the quinces?", timestamp="2126-04-01T10:00:00.000Z"))
    lines = terminal.until("And the quinces?", "1 working")
    assert lines[1].startswith("● Claude Code  Plant the pears.")
    assert lines[1].endswith("now")
    machine.rollout.write_bytes(b"torn\n")
    terminal.until("cannot be read: the file", "1 with an error")
    terminal.resize(40, 6)
    lines = terminal.until("● Claude Code  Plant the pears.", without="And the quinces?")
    assert len(lines) <= 6
    terminal.press("\x03")
    assert terminal.wait() == 0


def test_elsewhere_a_line_is_printed_for_each_session_that_changes(cli: Cli, machine: Machine) -> None:
    (machine.pi / "notes.jsonl").write_bytes(b"no session\n")
    with cli.spawn("follow", "--programs", "--json") as process:
        assert process.stdout is not None
        rows = [json.loads(process.stdout.readline()) for _ in range(8)]
        by_id = {(row["program"], row["id"]): row for row in rows}
        assert len(by_id) == 8
        assert by_id["pi", str(machine.pi / "notes.jsonl")]["problem"] == "the file is not a session of pi"
        grove = by_id["claude-code", GROVE]
        assert (grove["op"], grove["title"], grove["cwd"]) == ("changed", "Plant the pears.", "/home/mara/grove")
        assert (grove["state"], grove["line"], grove["path"]) == ("idle", "Planted.", str(machine.growing))
        append(machine.growing, claude_line(3, "And the quinces?", timestamp="2126-04-01T10:00:00.000Z"))
        changed = json.loads(process.stdout.readline())
        assert (changed["id"], changed["state"], changed["line"]) == (GROVE, "working", "And the quinces?")
        machine.growing.unlink()
        assert json.loads(process.stdout.readline()) == {"op": "gone", "program": "claude-code", "id": GROVE}
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"")
    assert err.decode() == f"treering: warning: {machine.pi / 'notes.jsonl'}: the file is not a session of pi\n"


def test_only_one_program_is_followed_and_a_reader_that_leaves_ends_it(cli: Cli, machine: Machine) -> None:
    with cli.spawn("follow", "--from", "codex") as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert line.split()[2:5] == ["codex", "idle", "Oven"]
        assert line.rstrip().endswith("/work/bakery  Thanks.")
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_what_is_to_be_followed_is_said_once(cli: Cli) -> None:
    assert "its own machine: leave out a SESSION" in cli.error("follow", "last", "--programs", status=2)
    assert "its own machine: leave out --server" in cli.error("follow", "--programs", "--server=x", status=2)
    assert "Missing argument 'SESSION'" in cli.error("follow", status=2)


def test_a_server_shows_them_to_be_read_only_and_leaves_nothing_behind(
    cli: Cli, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    before = machine.state()
    assert "leave out ROOT" in cli.error("serve", "somewhere", "--programs", status=2)
    with cli.spawn("serve", "--programs", "--port", "0", TMPDIR=str(tmp_path / "temporary")) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()
        with httpx2.Client(base_url=address) as client:
            about = client.get("/v1").json()
            assert (about["features"], about["read_only"]) == (["programs"], True)
            with client.stream("GET", "/v1/events", params={"kinds": "session"}) as stream:
                for line in stream.iter_lines():
                    if line.startswith("data:") and GROVE in line:
                        break
            row = next(row for row in client.get("/v1/sessions").json()["items"] if row["id"] == GROVE)
            assert (row["program"], row["partial"], row["project"]) == ("Claude Code", True, "/home/mara/grove")
            whole = client.get(f"/v1/sessions/{GROVE}").json()
            assert (whole["partial"], whole["message_count"]) == (False, 2)
            assert client.delete(f"/v1/sessions/{GROVE}").status_code == 403
            assert client.get("/v1/sessions/nowhere").status_code == 404
        (root,) = (tmp_path / "temporary").glob("treering-programs-*")
        assert (root / f"{GROVE}.jsonl").exists()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    assert not root.exists()
    assert not cli.root.exists()
    assert machine.state() == before
