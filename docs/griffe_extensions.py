"""Extensions of griffe for the reference: structs have the parameters that make them, examples begin as in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from griffe import (
    Attribute,
    Class,
    Docstring,
    Extension,
    Function,
    GriffeLoader,
    Module,
    Parameter,
    ParameterKind,
    Parameters,
)

_BEFORE_BLOCK = re.compile(r"::$", re.MULTILINE)


class StructFields(Extension):
    """Give each struct the `__init__` that msgspec gives it, so that its signature is shown."""

    def on_package(self, *, pkg: Module, loader: GriffeLoader, **_: object) -> None:
        """Handle all classes of a package that was loaded."""
        for each in list(_classes(pkg, set())):
            if "__init__" not in each.members and _is_struct(each):
                fields = {parameter.name: parameter for parameter in _fields(each)}
                this = Parameter("self", kind=ParameterKind.positional_or_keyword)
                parameters = sorted(fields.values(), key=lambda one: one.kind is ParameterKind.keyword_only)
                init = Function("__init__", parent=each, parameters=Parameters(this, *parameters))
                each.set_member("__init__", init)


class Examples(Extension):
    """Write a colon where a docstring has the two that announce a literal block: Markdown knows it by its indent."""

    def on_package(self, *, pkg: Module, loader: GriffeLoader, **_: object) -> None:
        """Handle all docstrings of a package that was loaded."""
        for each in list(_docstrings(pkg)):
            each.value = _BEFORE_BLOCK.sub(":", each.value)


def _docstrings(of: Module | Class) -> Iterator[Docstring]:
    if of.docstring is not None:
        yield of.docstring
    for member in of.members.values():
        if isinstance(member, (Class, Module)):
            yield from _docstrings(member)
        elif not member.is_alias and member.docstring is not None:
            yield member.docstring


def _classes(of: Module | Class, seen: set[str]) -> Iterator[Class]:
    for member in of.members.values():
        if not member.is_alias and member.path not in seen:
            seen.add(member.path)
            if isinstance(member, Class):
                yield member
            if isinstance(member, (Class, Module)):
                yield from _classes(member, seen)


def _is_struct(of: Class) -> bool:
    return any(str(base).partition("[")[0] == "Struct" for one in (of, *of.mro()) for base in one.bases)


def _fields(of: Class) -> Iterator[Parameter]:
    for one in (*reversed(of.mro()), of):
        named = str(one.keywords.get("kw_only")) == "True"
        kind = ParameterKind.keyword_only if named else ParameterKind.positional_or_keyword
        for member in one.members.values():
            if (
                isinstance(member, Attribute)
                and "instance-attribute" in member.labels
                and member.annotation is not None
            ):
                yield Parameter(member.name, annotation=member.annotation, kind=kind, default=member.value)
