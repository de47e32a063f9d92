"""The programs whose files can be read and written: one table of entry points, ours and those of installed packages.

Each entry names a class like `Format`, which is loaded on first use. A package adds one under the entry point group
`treering.formats` of its metadata; it cannot take a name of ours. Ours are declared here in the same form, and not in
treering's own metadata: their order has a meaning, since files are offered first to the formats that detect theirs with
certainty, metadata has none; and a checkout is installed once and then pulled, so its metadata would lack a new format.

`python -m treering.formats.programs` prints the table of docs/formats.md, with the formats of installed packages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from inspect import getdoc
from pathlib import Path

from ..events.arguments import check_word
from ..events.errors import ForeignFormatError
from .base import Format, WritesFile, WritesFolder

GROUP = "treering.formats"
"""The entry point group of formats that other packages add."""

_OURS = {
    "native": "own:NativeFormat",
    "omp": "own:OmpFormat",
    "pi": "own:PiFormat",
    "treering-json": "own:TreeringJsonFormat",
    "dive": "dive:DiveFormat",
    "codex": "codex:CodexFormat",
    "qwen": "qwen:QwenFormat",
    "claude-code": "claude_code:ClaudeCodeFormat",
    "cline": "cline:ClineFormat",
    "copilot": "copilot:CopilotFormat",
    "kimi": "kimi:KimiFormat",
    "gemini": "gemini:GeminiFormat",
    "opencode": "opencode:OpencodeFormat",
    "openai-agents": "openai_agents:OpenaiAgentsFormat",
    "adk": "adk:AdkFormat",
    "langgraph": "langgraph:LanggraphFormat",
    "agent-framework": "agent_framework:AgentFrameworkFormat",
    "strands": "strands:StrandsFormat",
    "nanocoder": "nanocoder:NanocoderFormat",
    "picoclaw": "picoclaw:PicoclawFormat",
    "aider": "aider:AiderFormat",
}

OURS = tuple(EntryPoint(name, f"{__package__}.{place}", GROUP) for name, place in _OURS.items())
"""The formats that come with treering, in the order in which they are asked."""


def programs() -> Mapping[str, EntryPoint]:
    """Return all formats by name: ours, then those of installed packages, which are asked after them."""
    return _programs(tuple(sys.path))


@lru_cache(maxsize=1)  # looking through all installed packages takes as long as importing a small file
def _programs(_: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """Return all formats, for these places in which Python looks for packages."""
    found = {each.name: each for each in OURS}
    for each in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        found.setdefault(each.name, each)
    return found


def format_names() -> tuple[str, ...]:
    """Return the names of all formats, in the order in which they are asked."""
    return (*programs(),)


def format_named(name: str) -> Format:
    """Return the format with a name.

    Raises:
        ForeignFormatError: There is no such format, or the package that adds it cannot be used.
    """
    entry = next((each for each in OURS if each.name == name), None)
    if entry is None:
        known = programs()
        check_word("format", name, known, error=ForeignFormatError)
        entry = known[name]
    return _loaded(entry)


def formats() -> Iterator[Format]:
    """Yield all formats, in the order in which they are asked; each is loaded when it is its turn.

    Raises:
        ForeignFormatError: A package that adds one cannot be used.
    """
    return map(_loaded, programs().values())


def _loaded(entry: EntryPoint) -> Format:
    try:
        made: object = entry.load()()
    except Exception as error:  # whatever the code of another package raises
        raise _unusable(entry, repr(error)) from error
    if not isinstance(made, Format):
        raise _unusable(entry, "it makes no `treering.formats.Format`")
    return made


def _unusable(entry: EntryPoint, reason: str) -> ForeignFormatError:
    return ForeignFormatError(
        f"the format {entry.name!r} of {entry.value} cannot be used ({reason}): mend or remove its package"
    )


def written_names() -> tuple[str, ...]:
    """Return the names of the formats that are written, too; this loads all of them."""
    return tuple(each.name for each in formats() if is_written(each))


def homes(environ: Mapping[str, str]) -> dict[str, Path]:
    """Return where programs keep their files, by the names of the formats that say it; this loads all of them.

    Args:
        environ: The environment, which may name other folders than the programs' usual ones.
    """
    return {each.name: folder for each in formats() if (folder := each.folder(environ)) is not None}


def is_written(format: Format) -> bool:
    """Return whether sessions can be written in a format, as one file or as several."""
    return isinstance(format, (WritesFile, WritesFolder))


def table() -> str:
    """Return the formats as a Markdown table, each row made from the format's class."""
    return "".join(f"| {' | '.join(row)} |\n" for row in _rows())


def _rows() -> Iterator[tuple[str, ...]]:
    yield "program", "`--format`", "kept in", "files", "checked with", "written"
    yield ("---",) * 6
    for format in formats():
        files = (getdoc(type(format)) or "").partition("\n\n")[0].replace("\n", " ")
        home = f"`{format.home}`" if format.home else ""
        written = "yes" if format.is_dialect or is_written(format) else ""
        yield format.title, f"`{format.name}`", home, files, format.checked, written


if __name__ == "__main__":
    sys.stdout.write(table())
