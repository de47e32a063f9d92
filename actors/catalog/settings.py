"""The settings of a host: persistence, how often it writes derived data, and when it archives.

A host reads no configuration file by itself. A program sets them in code, passes a mapping, or loads a file of its
own::

    SessionHost("~/sessions", settings=Settings(auto_archive_after_days=90))
    SessionHost("~/sessions", settings=Settings.load("~/sessions/config.toml"))

No setting delays an entry: it is in its file when its append returns. Only the index, which is derived, is written
later and less often.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from ...events.arguments import folder_of, scheme_of
from ...events.errors import InvalidInput
from ...events.stores.opening import check_scheme

_MINIMUMS = {
    "debounce_ms": 0,
    "update_metadata_interval_ms": 0,
    "max_sessions_per_project": 1,
    "auto_archive_after_days": 1,
}
"""The smallest valid value of each number; all other settings are booleans."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a host.

    Attributes:
        auto_persist: Keep sessions in files; otherwise all sessions live in memory, and nothing is written anywhere.
        save_after_assistant_message: Write the index after an assistant message, after `debounce_ms`; otherwise the
            message reaches the index with the next other change, or when the host closes.
        save_after_tool_execution: Likewise, for the record of a tool execution.
        debounce_ms: How long the index waits for further changes before it is written, in milliseconds.
        update_metadata_interval_ms: The minimum time between two writes of the index, in milliseconds.
        max_sessions_per_project: How many active sessions a project keeps; a retention sweep archives those that were
            appended to longest ago.
        auto_archive_after_days: After how many days without an entry the sweep archives a session.
        apply_retention_at_start: Run the sweep whenever a host opens, and not only on request.
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
        """Check values from a program by the same rules as those from a file.

        Raises:
            InvalidInput: A value has the wrong type or is out of range.
        """
        for name in self.__struct_fields__:
            value: object = getattr(self, name)
            minimum = _MINIMUMS.get(name)
            if minimum is None and not isinstance(value, bool):
                raise InvalidInput(f"`{name}` has to be true or false, not {value!r}")
            if minimum is not None and (not isinstance(value, int) or isinstance(value, bool) or value < minimum):
                raise InvalidInput(f"`{name}` has to be a whole number of {minimum} or more, not {value!r}")

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, object]) -> Self:
        """Read settings; missing ones keep their defaults.

        Args:
            source: A mapping, or the path of a file: TOML if its name ends in `.toml`, or else one JSON object; `~` is
                the user's home directory.

        Raises:
            InvalidInput: A key is unknown, or a value has the wrong type or is out of range; the message names it. Or
                the file is not valid TOML or JSON.
            OSError: The file cannot be read.
        """
        name = "the settings" if isinstance(source, Mapping) else f"the settings in {os.fspath(source)}"
        try:
            values = dict(source) if isinstance(source, Mapping) else _read(Path(source).expanduser())
            if unknown := [key for key in values if key not in cls.__struct_fields__]:
                raise ValueError(f"there is no {_listed(unknown)}; there are {_listed(cls.__struct_fields__)}")
            return msgspec.convert(values, cls)
        except (msgspec.MsgspecError, ValueError) as error:  # invalid TOML or UTF-8 raises a ValueError
            raise InvalidInput(f"{name} cannot be used: {error}") from error


def _read(path: Path) -> dict[str, object]:
    data = path.read_bytes()
    if path.suffix != ".toml":
        return msgspec.json.decode(data, type=dict[str, object])
    import tomllib  # not needed to import the package

    return tomllib.loads(data.decode())


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)


ROOT = "TREERING_ROOT"
"""The environment variable that sets the root."""


def default_root() -> Path | str:
    """Return the root that the command `treering` uses, so that a program and the command see the same sessions.

    It is the value of the environment variable `TREERING_ROOT`: a path, a `file:` URL, or the address of a store such
    as "postgresql://user@host/database". Without it, it is the platform's folder for application data: on Linux
    `~/.local/share/treering/sessions`, on macOS `~/Library/Application Support/treering/sessions`. It may not exist
    yet.

    Returns:
        The path of a folder, or the address of a store of another kind; `SessionHost` takes both.

    Raises:
        InvalidInput: The variable begins like an address of which no store is installed, or is "memory:".
    """
    configured = os.environ.get(ROOT)
    return root_of(configured, ROOT) if configured else application_folder() / "sessions"


def root_of(text: str, what: str) -> Path | str:
    """Return the root that a person gave: the absolute path of a folder, or the address of a store of another kind.

    Args:
        text: A path, in which `~` is expanded, or a URL.
        what: The name of what was given, for messages.

    Raises:
        InvalidInput: It begins like an address of which no store is installed, or is "memory:".
    """
    if scheme_of(text) not in (None, "file", "memory"):
        check_scheme(text, what)
        return text
    return Path(os.path.abspath(os.path.expanduser(folder_of(text, what))))


def application_folder() -> Path:
    """Return the platform's folder for application data of this program. It may not exist yet."""
    from platformdirs import user_data_path  # not needed to import the package

    return user_data_path("treering", appauthor=False)
