"""Gemini CLI: one line for each message, whose parts are those of Google's contents.

The folder is the one that the program's own list of projects gives the project, or a new one that names the project. At
each start the program deletes sessions that were last updated long ago, and with them all whose names end in the same
eight letters; after a resume these are the first eight of the id. So the time is that of the handing over, and the name
ends in other letters. Thinking is never sent, and neither are images in results, which therefore stand beside them. A
first message that tells where an earlier run took place gives way to one that tells it of the new run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import msgspec

from ...events.content import Content, TextPart
from ...events.json_values import JSON
from ...events.providers.common import images_of, result_text
from ..values import Object, as_object, as_text
from .base import Plan, Said, Surroundings, Talk, Writing, google_part, json_lines, mark, milliseconds, not_held

_PROJECT = ".project_root"
_CONTEXT = "<session_context>"
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


class GeminiTarget:
    """Files `~/.gemini/tmp/<project>/chats/session-<time>-<letters>.jsonl`."""

    title = "Gemini CLI"

    def plan(self, talk: Talk, surroundings: Surroundings) -> Plan:
        """Return the session file; see `Target.plan`."""
        own_id = str(uuid4())
        root = surroundings.folder("GEMINI_CLI_HOME", "") / ".gemini"
        folder, beside = _folder(root, surroundings.cwd)
        now = milliseconds(surroundings.now)
        head: Object = {
            "sessionId": own_id,
            "projectHash": sha256(surroundings.cwd.encode("utf-8", "surrogateescape")).hexdigest(),
            "startTime": now,
            "lastUpdated": now,
            "kind": "main",
        }
        writing = _Writing(talk)
        letters = uuid4().hex[:8]
        return Plan(
            own_id,
            folder / "chats" / f"session-{surroundings.now:%Y-%m-%dT%H-%M}-{letters}.jsonl",
            json_lines([head | mark(talk, own_id), *writing.lines()]),
            ("gemini", "--resume", own_id),
            (*writing.left_out,),
            beside,
        )


def _folder(root: Path, cwd: str) -> tuple[Path, tuple[tuple[Path, bytes], ...]]:
    """Return the folder of a project, and the file that makes a new one the project's."""
    registered = root / "projects.json"
    if registered.is_file():
        projects = as_object(as_object(msgspec.json.decode(registered.read_bytes())).get("projects"))
        slug = as_text(projects.get(cwd))
        if slug:
            return root / "tmp" / slug, ()
    folders = root / "tmp"
    for each in sorted(folders.glob(f"*/{_PROJECT}")):
        if each.read_text(encoding="utf-8", errors="surrogateescape").strip() == cwd:
            return each.parent, ()
    name = _NOT_IN_NAMES.sub("-", Path(cwd).name.lower()).strip("-") or "project"
    slug, number = name, 0
    while (folders / slug).exists():
        number += 1
        slug = f"{name}-{number}"
    return folders / slug, ((folders / slug / _PROJECT, cwd.encode("utf-8", "surrogateescape")),)


class _Writing(Writing):
    def lines(self) -> Iterator[Object]:
        for number, said in enumerate(self._talk.messages):
            kind = "gemini" if said.role == "assistant" else "user"
            parts = [*self._results(said), *self._parts(said, self._kept(said, number))]
            if parts:
                model: Object = {"model": said.model} if kind == "gemini" and said.model else {}
                time = milliseconds(said.time)
                yield {"id": f"m{number}", "timestamp": time, "type": kind, "content": parts, **model}

    def _kept(self, said: Said, number: int) -> Iterator[Content]:
        """Yield the content of a message, without what the program puts there anew at each resume: where it runs."""
        for part in said.content:
            if number == 0 and isinstance(part, TextPart) and part.text.content.startswith(_CONTEXT):
                self.left_out.append(not_held(said, part, "what the program says anew"))
            else:
                yield part

    def _results(self, said: Said) -> Iterator[JSON]:
        for result in said.results:
            name = self._talk.tools.get(result.tool_use_id, "unknown")
            key = "error" if result.is_error else "output"
            yield {"functionResponse": {"id": result.tool_use_id, "name": name, "response": {key: result_text(result)}}}
        for result in said.results:
            yield from self._parts(said, images_of(result))

    def _parts(self, said: Said, content: Iterable[Content]) -> Iterator[JSON]:
        for part in content:
            if (held := google_part(part)) is not None:
                yield held
            else:
                for words in self.instead(said, part):
                    yield {"text": words}
