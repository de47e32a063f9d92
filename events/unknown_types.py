"""Numbers for the types of entries that this program does not know, so that they fit among the kinds."""

from __future__ import annotations

from .kinds import Kind


class UnknownTypes:
    """The types of a log's entries that are not among the kinds, numbered from `Kind.FIRST_UNKNOWN` in order of use.

    Args:
        names: The types that were numbered already, by number.

    Attributes:
        names: The types by number. All types for which no number is left share `Kind.LAST`.
    """

    __slots__ = ("_numbers", "names")

    def __init__(self, names: dict[int, str] | None = None) -> None:
        self.names: dict[int, str] = {} if names is None else names
        self._numbers = {name: number for number, name in self.names.items() if number != Kind.LAST}

    def number_of(self, entry_type: str) -> int:
        """Return the number of a type, which is new if the type is."""
        number = self._numbers.get(entry_type)
        if number is None:
            number = Kind.FIRST_UNKNOWN + len(self.names)
            if number >= Kind.LAST:
                self.names[Kind.LAST] = "unknown"
                return Kind.LAST
            self._numbers[entry_type] = number
            self.names[number] = entry_type
        return number
