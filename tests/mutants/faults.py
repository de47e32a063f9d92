"""Small faults in Python code: what could be wrong with a function, and how all of it is planted behind switches.

Each fault has a number. Code with faults runs as if it had none until `planted(number)` is true for one of them, so one
process that has imported everything can try each in turn. Module level code, defaults, annotations, decorators, texts
and patterns have no faults: they are evaluated before a switch could be thrown, or say nothing of behaviour.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

SWITCH = "__planted__"

_SHIFTED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ORDERED = ("write", "append", "flush", "sync", "rename", "replace", "link", "remove", "truncate", "close", "release",
            "acquire", "save", "publish", "drop", "lock", "wake", "set")  # fmt: skip
"""Parts of names of calls whose order matters."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its place, which survives edits elsewhere, and what it makes of the code."""

    file: str
    function: str
    kind: str
    nth: int  # of its kind in the function
    line: int
    before: str
    after: str

    @property
    def id(self) -> str:
        return f"{self.file}:{self.function}:{self.kind}:{self.nth}"


def plant(source: str, file: str, wanted: Callable[[Fault], int | None]) -> str:
    """Return a module's source with faults behind switches.

    Args:
        source: The module.
        file: Its path, for the faults' places.
        wanted: Is asked for each possible fault, in order, and returns its number, or None to leave it out.
    """
    tree = ast.parse(source)
    planter = _Planter(file, wanted)
    tree.body = [planter.visit(statement) for statement in tree.body]
    place = 1 if ast.get_docstring(tree) is not None else 0
    place += any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    tree.body.insert(place, ast.parse(f"from treering._planted import planted as {SWITCH}").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


class _Planter(ast.NodeTransformer):
    """Replaces what is inside functions, innermost last: a fault's own copy of the code has no other faults."""

    def __init__(self, file: str, wanted: Callable[[Fault], int | None]) -> None:
        self._file = file
        self._wanted = wanted
        self._names: list[str] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self._inside = False

    def _number(self, kind: str, old: ast.AST, before: str, after: str) -> int | None:
        function = ".".join(self._names)
        self._counts[function, kind] += 1
        nth = self._counts[function, kind]
        return self._wanted(Fault(self._file, function, kind, nth, getattr(old, "lineno", 0), before, after))

    # What is evaluated too early, or is no behaviour.

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        outer, self._inside = self._inside, False
        self._names.append(node.name)
        node.body = self._block(node.body)
        self._names.pop()
        self._inside = outer
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        outer, self._inside = self._inside, True
        self._names.append(node.name)
        described = 1 if ast.get_docstring(node, clean=False) is not None else 0
        node.body = node.body[:described] + self._block(node.body[described:], is_function=True)
        self._names.pop()
        self._inside = outer
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        if node.guard is not None:
            node.guard = self.visit(node.guard)
        node.body = self._block(node.body)
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        # `zip(strict=True)` is an assertion, too.
        return node if node.arg == "strict" else self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                part.value = self.visit(part.value)
        return node

    # Expressions.

    def generic_visit(self, node: ast.AST) -> ast.AST:
        old = copy.deepcopy(node) if self._inside else node
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, name, self._block(value))
            elif isinstance(value, list):
                setattr(node, name, [self.visit(item) if isinstance(item, ast.AST) else item for item in value])
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        if not self._inside or not isinstance(node, ast.expr):
            return node
        result: ast.expr = node
        for kind, wrong in _wrong_expressions(old):
            number = self._number(kind, old, ast.unparse(old), ast.unparse(wrong))
            if number is not None:
                result = ast.IfExp(_switch(number), wrong, result)
        return result

    # Statements.

    def _block(self, statements: list[ast.stmt], *, is_function: bool = False) -> list[ast.stmt]:
        block: list[ast.stmt] = []
        skip: ast.expr | None = None  # is true when the statement was carried out before its predecessor
        for index, statement in enumerate(statements):
            old = copy.deepcopy(statement)
            following = statements[index + 1] if index + 1 < len(statements) else None
            swap = None
            if self._inside and following is not None and _is_order_telling(old, following):
                after = ast.unparse(following) + "\n" + ast.unparse(old)
                swap = self._number("swap", old, ast.unparse(old) + "\n" + ast.unparse(following), after)
                if swap is not None:
                    block.append(ast.If(_switch(swap), [copy.deepcopy(following)], []))
            is_last = is_function and index == len(statements) - 1
            number = None
            if self._inside and (kind := _leaving_out(old, is_last=is_last)) is not None:
                number = self._number(kind, old, ast.unparse(old), "pass")
            if self._inside and isinstance(statement, ast.Try | ast.TryStar):
                result: ast.stmt = self._try(statement)
            else:
                visited = self.visit(statement)
                assert isinstance(visited, ast.stmt)
                result = visited
            if number is not None:
                result = ast.If(_switch(number), [ast.Pass()], [result])
            if skip is not None:
                result = ast.If(skip, [ast.Pass()], [result])
            block.append(result)
            skip = _switch(swap) if swap is not None else None
        return block

    def _try(self, node: ast.Try | ast.TryStar) -> ast.stmt:
        numbers: list[int | None] = []
        bodies = [("handler", handler.body) for handler in node.handlers] + [("finally", node.finalbody)]
        for kind, body in bodies:
            is_nothing = not body or all(isinstance(statement, ast.Pass) for statement in body)
            text = "\n".join(ast.unparse(statement) for statement in body)
            numbers.append(None if is_nothing else self._number(kind, body[0], text, "pass"))
        node.body = self._block(node.body)
        node.orelse = self._block(node.orelse)
        *of_handlers, of_finally = numbers
        for handler, number in zip(node.handlers, of_handlers, strict=True):
            handler.body = _optional(number, self._block(handler.body))
        node.finalbody = _optional(of_finally, self._block(node.finalbody))
        return node


def _switch(number: int) -> ast.expr:
    return ast.Call(ast.Name(SWITCH, ast.Load()), [ast.Constant(number)], [])


def _optional(number: int | None, body: list[ast.stmt]) -> list[ast.stmt]:
    return body if number is None else [ast.If(_switch(number), [ast.Pass()], body)]


def _wrong_expressions(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield what an expression could be instead, with the kind of the fault."""
    match node:
        case ast.Compare(ops=ops):
            for index, operator in enumerate(ops):
                for other in _SHIFTED.get(type(operator), ()):
                    wrong = copy.deepcopy(node)
                    wrong.ops[index] = other()
                    yield "compare", wrong
        case ast.BoolOp(op=ast.And()):
            yield "and/or", ast.BoolOp(ast.Or(), node.values)
        case ast.BoolOp():
            yield "and/or", ast.BoolOp(ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield "not", node.operand
        case ast.BinOp(op=ast.Sub()):
            yield "minus", ast.BinOp(node.left, ast.Add(), node.right)
        case ast.IfExp(test=ast.Name() | ast.Attribute() | ast.Call()):
            yield "condition", ast.IfExp(node.test, node.orelse, node.body)
        case ast.Constant(value=bool(value)):
            yield "boolean", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield "constant", ast.Constant(value + 1)
            yield "constant", ast.Constant(value - 1)
        case ast.Call(func=ast.Name(id="max" | "min" as name)):
            yield "max/min", ast.Call(ast.Name("min" if name == "max" else "max"), node.args, node.keywords)
        case _:
            pass


def _leaving_out(node: ast.stmt, *, is_last: bool) -> str | None:
    """Return the kind of fault that leaves a statement out, or None if that is none."""
    match node:
        case ast.Expr(value=ast.Await(value=ast.Call())):
            return "await left out"
        case ast.Expr(value=ast.Call()):
            return "call left out"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign() | ast.Delete():
            return "statement left out"
        case ast.Raise(exc=ast.expr()):
            return "raise left out"
        case ast.Return() if not is_last:
            return "return left out"
        case ast.Continue():
            return "continue left out"
        case _:
            return None


def _is_order_telling(first: ast.stmt, second: ast.stmt) -> bool:
    """Tell whether two statements can change places and do something whose order matters."""
    simple = (ast.Expr, ast.Assign, ast.AugAssign)
    if not isinstance(first, simple) or not isinstance(second, simple):
        return False
    if not (isinstance(first, ast.Expr) or isinstance(second, ast.Expr)):  # two fields that are set, without an effect
        return False
    bound = {node.id for node in ast.walk(first) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    if any(isinstance(node, ast.Name) and node.id in bound for node in ast.walk(second)):
        return False
    names = [_called(node) for node in (first, second)]
    return all(names) and any(part in name for name in names for part in _ORDERED)


def _called(statement: ast.stmt) -> str:
    """Return the name of what a statement calls or sets, or an empty text."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            return getattr(node.func, "attr", getattr(node.func, "id", "")).lower()
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return "=" if any(isinstance(target, ast.Attribute) for target in targets) else ""
