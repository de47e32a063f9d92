"""The conversation on the page about the chat goes as it is shown there, at a terminal."""

import re
from pathlib import Path

import pytest

from ..cli.terminal import Terminal
from .test_blocks import blocks


def test_a_chat_goes_as_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREERING_ROOT", str(tmp_path / "root"))
    for name in ("FORCE_COLOR", "TREERING_MODEL", "TREERING_BASE_URL", "TREERING_WINDOW"):
        monkeypatch.delenv(name, raising=False)
    ((_, block),) = [each for each in blocks("") if each[0] == "chat.md"]
    command, *shown = block.splitlines()
    assert command == "$ treering chat -c"
    typed = [line[2:] for line in shown if line.startswith("> ")]
    first = Terminal("chat", cwd=tmp_path, columns=100, lines=50)
    first.ask(typed[0], "(echo, 1 message)")
    first.press("/label . answer\r")
    first.until("is labelled")
    first.ask(typed[1], "(echo, 3 messages)")
    assert first.leave() == 0
    second = Terminal("chat", "-c", cwd=tmp_path, columns=100, lines=50)
    for words in typed[2:]:
        second.until_prompt()
        second.press(f"{words}\r")
        if words.startswith("/branch"):
            second.until("[y/N]")
            second.press("n\r")
        second.until(f"> {words}")
    assert second.wait() == 0
    assert without_ids(second.lines) == without_ids(shown)


def without_ids(lines: list[str]) -> list[str]:
    return [re.sub(r"\b[0-9a-f]{8}\b", "........", line) for line in lines]
