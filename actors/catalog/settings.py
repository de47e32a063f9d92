"""The settings of a host: what it keeps, how often it writes what is derived, and when it archives.

A host reads no file by itself. A program says them, gives them as a mapping, or keeps them in a file of its own::

    SessionHost("~/sessions", settings=Settings(auto_archive_after_days=90))
    SessionHost("~/sessions", settings=Settings.load("~/sessions/config.toml"))

An entry is never held back, whatever is set here: it is in its file when its append returns. What is written later and
seldom is the index, which is derived.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from ...events.errors import InvalidInput

_LEAST = {
    "debounce_ms": 0,
    "update_metadata_interval_ms": 0,
    "max_sessions_per_project": 1,
    "auto_archive_after_days": 1,
}
"""The least that each number may be; all else is true or false."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set of a host.

    Attributes:
        auto_persist: Keep sessions in files; without it all of them live in memory, and nothing is written anywhere.
        save_after_assistant_message: An assistant's message has the index written, after `debounce_ms`; without it the
            index learns of the message with whatever else has it written, at the latest when the host closes.
        save_after_tool_execution: Likewise, the record of a tool's run.
        debounce_ms: How long the index waits for more before it is written, in milliseconds.
        update_metadata_interval_ms: The least time between two writes of the index, in milliseconds.
        max_sessions_per_project: How many active sessions a project keeps; the sweep of a retention archives those that
            were used longest ago.
        auto_archive_after_days: After how many days without an entry the sweep archives a session.
        apply_retention_at_start: Make that sweep whenever a host opens, and not only when it is asked for.
    """

    auto_persist: bool = True
    save_after_assistant_message: bool = True
    save_after_tool_execution: bool = True
    debounce_ms: int = 1000
    update_metadata_interval_ms: int = 5000
    max_sessions_per_project: int = 50
    auto_archive_after_days: int = 30
    apply_retention_at_start: bool = False

    def __post_init__(self) -> None:
        """Hold what a program gives to the same rules as what a file says.

        Raises:
            InvalidInput: A value is of the wrong type, or out of its range.
        """
        for name in self.__struct_fields__:
            value: object = getattr(self, name)
            least = _LEAST.get(name)
            if least is None and not isinstance(value, bool):
                raise InvalidInput(f"`{name}` has to be true or false, not {value!r}")
            if least is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                raise InvalidInput(f"`{name}` has to be a whole number of {least} or more, not {value!r}")

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, object]) -> Self:
        """Read settings; what is not said keeps its default.

        Args:
            source: A mapping, or the path of a file: TOML where its name ends in `.toml`, else JSON, one object; `~` is
                the user's.

        Raises:
            InvalidInput: A key is unknown, or a value of the wrong type or out of its range; the message names it. Or
                the file is no TOML, or no JSON.
            OSError: The file cannot be read.
        """
        what = "the settings" if isinstance(source, Mapping) else f"the settings in {os.fspath(source)}"
        try:
            given = dict(source) if isinstance(source, Mapping) else _read(Path(source).expanduser())
            if unknown := [key for key in given if key not in cls.__struct_fields__]:
                raise ValueError(f"there is no {_listed(unknown)}; there are {_listed(cls.__struct_fields__)}")
            return msgspec.convert(given, cls)
        except (msgspec.MsgspecError, ValueError) as error:  # no TOML, or no UTF-8, is a ValueError
            raise InvalidInput(f"{what} cannot be used: {error}") from error


def _read(path: Path) -> dict[str, object]:
    data = path.read_bytes()
    if path.suffix != ".toml":
        return msgspec.json.decode(data, type=dict[str, object])
    import tomllib  # not needed to import the package

    return tomllib.loads(data.decode())


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)
