"""A conversation that one program held goes on in each of the others: the real program's next request holds all of it.

What the programs said was recorded (`recording`), and a native session is among it. The model is on this machine.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from treering import MessageEntry, Session, SessionHost
from treering.events.texts import one_line
from treering.formats.handing_over.targets import target_names
from treering.sessions import HandedOver

from .given import make_given
from .programs import Program, are_installable, installed
from .recording import RECORDED
from .scripted_model import NO_CALL, scripted_model
from .test_real_programs import check_request, fingerprints

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not are_installable(), reason="node and npm are not installed"),
]

PROMPT = f"Go on with the orchard. {NO_CALL}"

_MARKERS = re.compile(r"Count the \w+|pears-7|plums-missing|answer-\d+")


def strings(value: Any) -> Iterator[str]:  # noqa: ANN401
    """All texts in a part of a request, in order; those of arguments that are sent as JSON are taken out of it."""
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list):
        for each in value:
            yield from strings(each)
    elif isinstance(value, str):
        decoded = json.loads(value) if value.startswith("{") and value.endswith("}") else None
        if isinstance(decoded, dict):
            yield from strings(decoded)
        else:
            yield value


async def path_of(session: Session) -> list[str]:
    """What was said and done on the path of a session, in order: words, arguments and results."""
    entries = [await session.entry(each) for each in session.path()]
    texts: list[str] = []
    for part in (part for each in entries if isinstance(each, MessageEntry) for part in each.message.content):
        if part.type == "text":
            texts.append(part.text.content)
        elif part.type == "tool_use":
            texts += strings(part.tool_use.input)
        elif part.type == "tool_result":
            texts.append(part.tool_result.text)
        else:
            raise AssertionError(part.type)
    return [each.strip() for each in texts if each.strip()]


async def hand_over_all(root: Path, target: str, home: Path, project: Path) -> dict[str, tuple[HandedOver, list[str]]]:
    """Hand over what each program said, and check that nothing beside it changes; return what its path holds, too."""
    found: dict[str, tuple[HandedOver, list[str]]] = {}
    async with SessionHost(root) as host:
        reports = await host.import_sessions(RECORDED)
        assert {each.format for each in reports} == {*target_names()}
        assert [each.format for each in reports if each.findings and "error" in str(each.findings)] == []
        for report in reports:
            async with await host.load(root / report.ref) as session:
                found[report.format] = await handed_over(session, target, home, project), await path_of(session)
        async with await make_given(host) as session:
            found["native"] = await handed_over(session, target, home, project), []
    return found


async def handed_over(session: Session, target: str, home: Path, project: Path) -> HandedOver:
    before = fingerprints(home)
    handed = await session.hand_over(target, cwd=project)
    after = fingerprints(home)
    changed = [each.relative_to(home) for each in before if after.get(each) != before[each]]
    assert all(target == each.parts[2] == "opencode" for each in changed)  # its own command wrote there
    return handed


def check_path(body: dict[str, Any], path: list[str]) -> None:
    """Check that a request holds a path, whole, once and in order, and then the prompt."""
    said = "\n".join(strings(next(body[name] for name in ("messages", "input", "contents") if name in body)))
    at = 0
    for each in (*path, PROMPT):
        assert each in said[at:], each
        at = said.index(each, at) + len(each)
    assert _MARKERS.findall(said) == _MARKERS.findall("\n".join(path))


@pytest.mark.feature("A-36")
@pytest.mark.parametrize("target", target_names())
def test_a_session_of_each_program_goes_on_in_this_one(
    target: str, tmp_path: Path, home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted_model(first=1001) as model:
        real = Program(target, home, project, model.url)
        real.run(f"A session of its own. {NO_CALL}")
        monkeypatch.setenv("PATH", f"{installed()}{os.pathsep}{os.environ['PATH']}")
        found = anyio.run(hand_over_all, tmp_path / "root", target, home, project)
        assert found.keys() == {*target_names(), "native"}
        for source, (handed, path) in found.items():
            model.requests.clear()
            real.run(PROMPT, handed.id)
            request = model.talks()[0]
            if source == "native":
                check_request(request, handed, PROMPT)
            else:
                own = [path.pop(0)] if source == target == "gemini" else []  # it tells its model anew where it runs
                assert [(each.kind, each.text) for each in handed.left_out] == [
                    ("what the program says anew", one_line(words, 80)) for words in own
                ], source
                check_path(request, path)
