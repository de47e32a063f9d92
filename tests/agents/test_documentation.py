"""The names on the page about agents exist; tests/docs run its programs."""

import re
from pathlib import Path

from treering import AgentOptions, AgentSession, Session

from ..test_exports import EVERYWHERE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "agents.md"


def test_names_on_the_page_exist() -> None:
    prose = re.sub(r"```.*?```", "", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    for name in re.findall(r"`([A-Z]\w+)[`(]", prose):
        assert name in EVERYWHERE or name == "ScriptedModel", name
    for name in re.findall(r"`(?:agent|session)\.(\w+)\(", prose):
        assert hasattr(AgentSession, name) or hasattr(Session, name), name
    for name in re.findall(r"`(\w+_(?:max|s))`", prose):
        assert name in AgentOptions.__struct_fields__, name
