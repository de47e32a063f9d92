"""How values that hold raw JSON show themselves to whoever debugs or prints them."""

from __future__ import annotations

from msgspec import Raw, Struct


def shown(self: Struct) -> str:
    """Return a struct's repr, its raw JSON as JSON under the name that programs read it by: `__repr__ = shown`.

    Defaults are left out where the struct says `repr_omit_defaults`.
    """
    told = ", ".join(_field(*each) for each in self.__rich_repr__())
    return f"{type(self).__name__}({told})"


def _field(name: str, value: object) -> str:
    if not isinstance(value, Raw):
        return f"{name}={value!r}"
    return f"{name.removeprefix('raw_')}={bytes(value).decode('utf-8', 'replace')}"
