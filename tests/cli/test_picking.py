"""The list for choosing a session: its keys and its drawing, without a terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.cells import cell_len

from treering import SessionHost, SessionSummary
from treering.cli.chat.picker import Layout, Picked, Picking, draw
from treering.cli.chat.picker_screen import Picker

from ..sampling import examples

NOW = datetime(2026, 12, 25, 15, 0, tzinfo=UTC)
HERE, ELSEWHERE = "1111", "2222"


def row(
    title: str,
    at: datetime = NOW,
    count: int = 2,
    project: str = HERE,
    *,
    session_id: str | None = None,
    problem: str | None = None,
) -> SessionSummary:
    return SessionSummary(
        id=session_id or title,
        ref=f"{session_id or title}.jsonl",
        name=title,
        title=title,
        created=at,
        modified=at,
        last_entry=at,
        last_accessed=at,
        message_count=count,
        project=f"/work/{project}",
        project_hash=project,
        dialect="native",
        status="active" if problem is None else "corrupted",
        problem=problem,
    )


ROWS = [
    row("Implement auth system", NOW - timedelta(minutes=30), 45),
    row("Fix CORS issues", NOW - timedelta(hours=4, minutes=45), 12),
    row("Add user registration", NOW - timedelta(days=1), 78),
    row("Elsewhere", NOW - timedelta(days=1, hours=2), 1, ELSEWHERE),
    row("Database migrations", NOW - timedelta(days=2), 23),
]


def picking(*, everywhere: bool = False, current: str | None = None) -> Picking:
    return Picking(ROWS, HERE, everywhere=everywhere, current=current)


def press(state: Picking, *keys: str) -> Picked | None:
    picked = None
    for key in keys:
        assert picked is None
        picked = state.press(key, 2)
    return picked


def titles(state: Picking) -> list[str | None]:
    return [each.title for each in state.shown]


def drawn(state: Picking, width: int = 80, height: int = 24, preview: tuple[str, ...] = ()) -> list[str]:
    return [click.unstyle(line) for line in draw(state, preview, Layout(width, height), NOW, zone=UTC)]


@pytest.mark.feature("N-119")
def test_rows_show_title_date_and_count() -> None:
    lines = drawn(picking())
    assert [line.rstrip() for line in lines[:5]] == [
        "Select a session to resume:  4 sessions in this project",
        "▸ Implement auth system  Today 2:30 PM   45 messages",
        "  Fix CORS issues        Today 10:15 AM  12 messages",
        "  Add user registration  Yesterday       78 messages",
        "  Database migrations    Dec 23          23 messages",
    ]
    assert lines[-1] == "[Enter] Resume  [n] New session  [/] Filter  [Tab] All projects  [q] Quit"


def test_rows_of_all_projects_show_the_project() -> None:
    lines = drawn(picking(everywhere=True))
    assert "5 sessions in all projects" in lines[0]
    assert [line.split()[-1] for line in lines[1:6]] == ["/work/1111"] * 3 + ["/work/2222", "/work/1111"]
    assert "[Tab] This project" in lines[-1]


def test_the_selected_row_is_marked_over_its_whole_width() -> None:
    styled = draw(picking(), (), Layout(60, 24), NOW, zone=UTC)
    (marked,) = [line for line in styled if "\x1b[7m" in line]
    assert cell_len(click.unstyle(marked)) == 60


@given(
    st.lists(st.text(max_size=40), max_size=30),
    st.integers(1, 120),
    st.integers(1, 50),
    st.integers(0, 40),
    st.booleans(),
)
def test_the_drawing_fits_the_window(names: list[str], width: int, height: int, down: int, everywhere: bool) -> None:
    rows = [row(name, session_id=f"s{at}") for at, name in enumerate(names)]
    state = Picking(rows, HERE, everywhere=everywhere)
    press(state, *["down"] * down)
    lines = drawn(state, width, height, ("some words " * 20,) * 9)
    assert len(lines) <= height
    assert max(map(cell_len, lines)) <= max(width, 3)
    assert not {char for line in lines for char in line if ord(char) < 32}
    assert sum(line.startswith("▸") for line in lines) == bool(rows) or width < 3 or height < 9


def test_the_selected_row_is_always_visible() -> None:
    rows = [row(f"session {at}") for at in range(100)]
    state = Picking(rows, HERE)
    for _ in range(100):
        assert state.session is not None
        assert any(line.startswith(f"▸ {state.session.title} ") for line in drawn(state, 60, 12))
        state.press("down", 5)


def test_an_empty_list_shows_the_reason() -> None:
    assert "no sessions in this project yet" in drawn(Picking(ROWS, "none"))[1]
    assert "no sessions yet" in drawn(Picking([], HERE, everywhere=True))[1]
    state = picking()
    press(state, "/", "z", "z")
    assert drawn(state)[1:3] == ["/zz_", "  No session contains these words."]


def test_the_preview_is_shown_below_the_rows() -> None:
    assert drawn(picking(), preview=("user: Why?", "assistant: Because."))[6:8] == ["user: Why?", "assistant: Because."]


def test_enter_resumes_n_starts_a_new_session_and_q_quits() -> None:
    assert press(picking(), "enter") == Picked("resume", ROWS[0])
    assert press(picking(), "n") == Picked("new")
    assert press(picking(), "q") == Picked("quit")
    assert press(picking(), "escape") == Picked("quit")
    assert press(picking(), "interrupt") == Picked("interrupt")


def test_keys_move_the_selection_within_the_list_from_the_current_session_on() -> None:
    assert picking(current=ROWS[2].ref).session == ROWS[2]
    assert picking(current="gone").session == ROWS[0]
    places = {"down": 1, "j j": 2, "j k": 0, "up": 0, "end": 3, "G down": 3, "G g": 0, "page-down": 2, "end home": 0}
    for keys, place in {**places, "page-down page-down page-up": 1}.items():
        state = picking()
        press(state, *keys.split())
        assert state.selected == place, keys


def test_tab_shows_all_projects_and_keeps_the_selection() -> None:
    state = picking()
    press(state, "end", "tab")
    assert len(titles(state)) == 5
    assert state.session == ROWS[4]
    press(state, "up", "tab")
    assert len(titles(state)) == 4
    assert state.session == ROWS[0]  # the selected session of the other project is hidden


def test_the_filter_shows_titles_that_contain_all_words() -> None:
    state = picking()
    press(state, "/", *"AUTH q")
    assert titles(state) == []  # letters are part of the filter, not commands
    press(state, "backspace", "backspace")
    assert titles(state) == ["Implement auth system"]
    press(state, "erase", *"i s")
    assert titles(state) == ["Implement auth system", "Fix CORS issues", "Add user registration", "Database migrations"]
    press(state, "s")
    assert titles(state) == ["Fix CORS issues"]
    assert press(state, "enter") == Picked("resume", ROWS[1])
    press(state, "escape")
    assert (state.filter, state.filtering, len(titles(state))) == ("", False, 4)
    assert state.session == ROWS[1]


def test_deleting_beyond_the_beginning_ends_the_filter() -> None:
    state = picking()
    press(state, "/", "x", "backspace", "backspace")
    assert not state.filtering
    assert press(state, "q") == Picked("quit")


def test_a_file_that_cannot_be_read_is_not_resumed() -> None:
    broken = row("noise", problem="noise.jsonl:1:0: this is not a session header")
    state = Picking([broken], HERE)
    assert press(state, "enter") is None
    assert "this is not a session header" in drawn(state)[-2]
    assert "cannot be read" in drawn(state)[1]


def test_enter_in_an_empty_list_does_nothing() -> None:
    state = Picking([], HERE)
    assert press(state, "down", "G", "enter") is None
    assert "press n" in drawn(state)[-2]
    assert press(state, "n") == Picked("new")


KEYS = [
    *["enter", "tab", "escape", "up", "down", "home", "end", "page-up", "page-down", "backspace", "erase"],
    *"jkgGn/aoi",
]


@given(st.lists(st.sampled_from(KEYS), max_size=40))
def test_after_any_keys_the_selection_is_a_visible_row(keys: list[str]) -> None:
    state = picking()
    for key in keys:
        if state.press(key, 3) is not None:
            break
        assert 0 <= state.selected < max(1, len(state.shown))
        assert drawn(state)


class Recording(Picking):
    """A state that notes its keys, until a capital Q quits."""

    def __init__(self) -> None:
        super().__init__(ROWS, HERE)
        self.keys: list[str] = []

    def press(self, key: str, page: int) -> Picked | None:
        if key == "Q":
            return Picked("quit")
        self.keys.append(key)
        return None


def send(data: bytes, state: Picking) -> Picked:
    """Send bytes to a picker, on a screen that shows nothing."""

    async def run() -> Picked:
        async with SessionHost(None) as host:
            return await Picker(host, state).run()

    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_bytes(data)
        return anyio.run(run)


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"\r", ["enter"]),
        (b"jk/", ["j", "k", "/"]),
        (b"\x1b[A\x1b[B\x1bOA\x1bOB", ["up", "down", "up", "down"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[F\x1b[1~\x1b[4~", ["page-up", "page-down", "home", "end", "home", "end"]),
        (b"\x1b[1;5A", ["up"]),
        (b"\x1b[2~\x1b[C\x01", []),
        (b"\x7f\x08\x15\t\x03\x04", ["backspace", "backspace", "erase", "tab", "interrupt", "end-of-input"]),
        ("ü日".encode(), ["ü", "日"]),
        (b"\x1bx", ["escape", "x"]),
        (b"\x1b\x1b[A", ["escape", "up"]),
        (b"\xff", ["\ufffd"]),
        (b"\x1b[200~a\nb\x1b[201~", ["a", "b"]),
    ],
)
def test_bytes_of_a_terminal_are_keys(data: bytes, keys: list[str]) -> None:
    state = Recording()
    assert send(data + b"Q", state) == Picked("quit")
    assert state.keys == keys


def test_an_escape_byte_with_nothing_after_it_is_the_escape_key() -> None:
    assert send(b"\x1b", picking()) == Picked("quit")


@settings(max_examples=examples(25))
@given(st.binary(max_size=80))
def test_any_bytes_leave_a_picker_that_can_be_interrupted(data: bytes) -> None:
    assert send(data + b"\x1b[201~\x03", picking()).action in ("interrupt", "resume", "new", "quit")
