"""The modules of a library as their source shows them: lines, imports, circles of imports, questions of class.

Nothing is imported. An import of a name from a package leads to the module of that name, if there is one, and else to
the package; that a package is imported before its modules does not count.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

Circle: TypeAlias = list[str]
"""Modules each of which imports, on some way, all others."""

STORE_CLASS = "FileStore"
STORE_FOLDER = ("stores", "files")
"""The end of the path of the folder that may ask for this class."""


class Module(Struct):
    """One module.

    Attributes:
        name: Its dotted name; that of a package does not end in `__init__`.
        path: Its path, relative to the library.
        lines: How many lines it has.
        tree: Its syntax.
    """

    name: str
    path: Path
    lines: int
    tree: ast.Module


def read_modules(package: Path) -> list[Module]:
    """Read all modules of a package, those in linked folders included.

    Args:
        package: Its folder; the folder's name is that of the package.
    """
    collects = gc.isenabled()
    gc.disable()  # none of the syntax is garbage, and to look for some takes four times as long as to read it
    try:
        return list(_read_folder(package, package))
    finally:
        if collects:
            gc.enable()


def _read_folder(folder: Path, package: Path) -> Iterator[Module]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _read_folder(path, package)
        elif path.suffix == ".py":
            text, relative = path.read_text(encoding="utf-8"), path.relative_to(package)
            parts = (package.name, *relative.with_suffix("").parts)
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            yield Module(name, relative, len(text.splitlines()), ast.parse(text))


def imports(module: Module, names: set[str]) -> set[str]:
    """Return the modules that a module imports: anywhere in it, also inside functions and for types alone.

    Args:
        module: The module.
        names: The names of all modules; others are left out.
    """
    package = module.name if module.path.name == "__init__.py" else module.name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")
            base = above[: len(above) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            found.update(each if (each := f"{origin}.{alias.name}") in names else origin for alias in node.names)
    return (found & names) - {module.name}


def circles(modules: Sequence[Module]) -> list[Circle]:
    """Return the circles of imports: the groups of modules that all reach each other, each sorted."""
    names = {each.name for each in modules}
    graph = {each.name: imports(each, names) for each in modules}
    reached = {name: _reached_from(name, graph) for name in graph}
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return sorted(sorted(group) for group in groups if group)


def _reached_from(name: str, graph: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    pending = [name]
    while pending:
        new = graph[pending.pop()] - found
        found |= new
        pending.extend(new)
    return found


def questions_of_class(modules: Sequence[Module]) -> list[str]:
    """Return where modules outside the file store ask whether an object is one, as file and line.

    Counts `isinstance` and `issubclass`, also with several classes, patterns of `match`, and comparisons of a type.
    """
    return [
        f"{module.path}:{node.lineno}"
        for module in modules
        if not _is_in_store(module.path)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call | ast.Compare | ast.MatchClass) and _asks(node)
    ]


def _is_in_store(path: Path) -> bool:
    parts = path.parent.parts
    return any(parts[at : at + len(STORE_FOLDER)] == STORE_FOLDER for at in range(len(parts)))


def _asks(node: ast.Call | ast.Compare | ast.MatchClass) -> bool:
    match node:
        case ast.Call(func=ast.Name("isinstance" | "issubclass"), args=[_, classes]):
            return _names_store(classes)
        case ast.MatchClass(cls=cls):
            return _names_store(cls)
        case ast.Compare(left=left, comparators=others):
            return any(map(_names_store, [left, *others]))
        case _:
            return False


def _names_store(node: ast.expr) -> bool:
    names = (
        each.id if isinstance(each, ast.Name) else each.attr if isinstance(each, ast.Attribute) else ""
        for each in ast.walk(node)
    )
    return STORE_CLASS in names


def length_of_function(module: Module, line: int) -> int:
    """Return the lines of a function with its signature and decorators, without its docstring.

    Args:
        module: Where it is.
        line: The line where it begins, with its decorators.
    """
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
            first = min([node.lineno, *(each.lineno for each in decorators)])
            if first == line:
                return (node.end_lineno or line) - first + 1 - _docstring_lines(node)
    raise LookupError(f"{module.path} has no function in line {line}")


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> int:
    if isinstance(node, ast.Lambda) or ast.get_docstring(node, clean=False) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or first.lineno) - first.lineno + 1
