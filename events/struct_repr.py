"""The repr of structs that hold raw JSON."""

from __future__ import annotations

from msgspec import Raw, Struct


def shown(self: Struct) -> str:
    """Return a struct's repr that shows raw JSON as text, under its public name: `__repr__ = shown`.

    Defaults are left out if the struct has `repr_omit_defaults`.
    """
    fields = ", ".join(_field(*each) for each in self.__rich_repr__())
    return f"{type(self).__name__}({fields})"


def _field(name: str, value: object) -> str:
    if not isinstance(value, Raw):
        return f"{name}={value!r}"
    return f"{name.removeprefix('raw_')}={bytes(value).decode('utf-8', 'replace')}"
