"""The settings of a host: what it keeps, how often it writes what is derived, and when it archives.

A program keeps them in a file of its own, or gives them as a mapping::

    SessionHost("~/sessions", settings=Settings.load({"auto_archive_after_days": 90}))

An entry is never held back, whatever is set here: it is in its file when its append returns. What is written later and
seldom is the index, which is derived.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self, TypeAlias

import msgspec
from msgspec import Meta, Struct

from ...events.errors import InvalidInput

Milliseconds: TypeAlias = Annotated[int, Meta(ge=0)]
"""A time that is not negative, in milliseconds."""


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
    debounce_ms: Milliseconds = 1000
    update_metadata_interval_ms: Milliseconds = 5000
    max_sessions_per_project: Annotated[int, Meta(ge=1)] = 50
    auto_archive_after_days: Annotated[int, Meta(ge=1)] = 30
    apply_retention_at_start: bool = False

    def __post_init__(self) -> None:
        """Hold what a program gives to the same rules as what a file says."""
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` has to be {least} or more")

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, object]) -> Self:
        """Read settings; what is not said keeps its default.

        Args:
            source: A mapping, or the path of a JSON file that holds one object.

        Raises:
            InvalidInput: A key is unknown, or a value of the wrong type or out of its range; the message names it.
            OSError: The file cannot be read.
        """
        try:
            if isinstance(source, Mapping):
                return msgspec.convert(dict(source), cls)
            return msgspec.json.decode(Path(source).read_bytes(), type=cls)
        except msgspec.MsgspecError as error:
            what = "the settings" if isinstance(source, Mapping) else f"the settings in {os.fspath(source)}"
            raise InvalidInput(f"{what} cannot be used: {error}") from error


_LEAST = {
    "debounce_ms": 0,
    "update_metadata_interval_ms": 0,
    "max_sessions_per_project": 1,
    "auto_archive_after_days": 1,
}
