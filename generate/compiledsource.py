"""The source that mypyc reads: a module of Kapi, edited where mypyc needs it, and refused where it would be wrong.

No line moves, so that tracebacks name the lines of the source.
"""

from __future__ import annotations

import ast
import builtins
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_FUTURE = "from __future__ import annotations"
_PYTHON_BASE = re.compile(r"(Error|Exception)$|^(list|dict)\b")
_REFUSED_DECORATORS = ("runtime_checkable", "dataclass")
_WAITING = (ast.Await, ast.AsyncWith, ast.AsyncFor, ast.Yield, ast.YieldFrom)


class NotCompilable(Exception):
    """A module has something in it that mypyc would translate wrongly; the text says where and what."""


def edited(module: str, text: str, *, modules: Collection[str], open_classes: Collection[str]) -> str:
    """Return the source of a module for mypyc.

    * Exceptions and subclasses of built-in collections stay classes of Python: a decorator that mypyc does not know.
    * Classes that are open to subclasses in Python say so. mypy_extensions, which has the word for it, is imported by
      mypy only, so that it is not needed where Kapi runs.
    * The types of fields of named tuples are quoted: they are evaluated when the module is imported.
    * Attributes that are deleted are named.

    Raises:
        NotCompilable: it must not be compiled as it is.
    """
    tree, lines = ast.parse(text), text.splitlines()
    _check(module, tree, modules)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            _edit_class(node, lines, is_open=f"{module}.{node.name}" in open_classes)
    at = lines.index(_FUTURE)
    _replace_empty(lines, at + 1, "if MYPY: from mypy_extensions import mypyc_attr")
    lines[at] += "; from abc import update_abstractmethods as python_class; MYPY = False"
    return "\n".join(lines) + "\n"


# -- what is refused --------------------------------------------------------------------------------------------------


def _check(module: str, tree: ast.Module, modules: Collection[str]) -> None:
    known = set(_known_names(tree, modules))
    for node in ast.walk(tree):
        problem = ""
        match node:
            case ast.ClassDef():
                unknown = [ast.unparse(base) for base in node.bases if _root(base) not in known]
                if unknown:
                    problem = f"{node.name} would lose its base class {unknown[0]}, whose module is not compiled"
                elif any(ast.unparse(base) == "msgspec.Struct" for base in node.bases):
                    problem = f"msgspec would not see the types of the fields of {node.name}"
                elif any(ast.unparse(one).startswith(_REFUSED_DECORATORS) for one in node.decorator_list):
                    problem = f"{node.name} has a decorator that mypyc gets wrong"
            case ast.Try():
                inside = [*(statement for handler in node.handlers for statement in handler.body), *node.finalbody]
                if any(isinstance(inner, _WAITING) for inner in _within(inside)):
                    problem = "a compiled coroutine that waits in `except` or `finally` loses the exception"
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if any(ast.unparse(one).endswith("cached_property") for one in node.decorator_list):
                    problem = f"{node.name} would be computed each time it is read"
        if problem:
            raise NotCompilable(f"{module}:{getattr(node, 'lineno', 0)}: {problem}")


def _known_names(tree: ast.Module, modules: Collection[str]) -> Iterator[str]:
    """The names of base classes that mypyc knows: those of this module, of compiled ones, and of others than Kapi."""
    yield from dir(builtins)
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name):
                yield name
            case ast.Import(names=names):
                yield from (name.asname or name.name for name in names)
            case ast.ImportFrom(module=str(source), names=names) if source in modules or source[:4] != "kapi":
                yield from (name.asname or name.name for name in names)


def _root(base: ast.expr) -> str:
    while isinstance(base, ast.Attribute | ast.Subscript):
        base = base.value
    return base.id if isinstance(base, ast.Name) else ""


def _within(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All that runs when these statements run; functions that are only defined there do not."""
    for statement in statements:
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield statement
            yield from _within(ast.iter_child_nodes(statement))


# -- what is edited ---------------------------------------------------------------------------------------------------


def _edit_class(node: ast.ClassDef, lines: list[str], *, is_open: bool) -> None:
    bases = [ast.unparse(base) for base in node.bases]
    if "NamedTuple" in bases:
        for field in node.body:
            if isinstance(field, ast.AnnAssign):
                _quote(field.annotation, lines)
        return
    _declare_deleted(node, lines)
    decorator = ""
    if is_open:
        decorator = "@mypyc_attr(allow_interpreted_subclasses=True)"
    elif any(_PYTHON_BASE.search(base) for base in bases):
        decorator = "@python_class"
    if decorator:
        first = min([node.lineno, *(other.lineno for other in node.decorator_list)]) - 1
        _replace_empty(lines, first - 1, decorator)


def _declare_deleted(node: ast.ClassDef, lines: list[str]) -> None:
    """Name the attributes that `del` removes, on the line of `__slots__`."""
    names = [
        target.attr
        for statement in ast.walk(node)
        if isinstance(statement, ast.Delete)
        for target in statement.targets
        if isinstance(target, ast.Attribute)
    ]
    if not names:
        return
    for statement in node.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__slots__":
            at = statement.lineno - 1
            lines[at] = lines[at].replace("__slots__", f"__deletable__ = {names!r}; __slots__", 1)
            return
    raise NotCompilable(f"{node.name} deletes attributes and has no __slots__")


def _quote(annotation: ast.expr, lines: list[str]) -> None:
    if annotation.lineno != annotation.end_lineno:
        raise NotCompilable(f"line {annotation.lineno}: the type of a field does not end on the line it begins on")
    line = lines[annotation.lineno - 1].encode()
    quoted = repr(ast.unparse(annotation)).encode()
    lines[annotation.lineno - 1] = (line[: annotation.col_offset] + quoted + line[annotation.end_col_offset :]).decode()


def _replace_empty(lines: list[str], at: int, text: str) -> None:
    if lines[at]:
        raise NotCompilable(f"line {at + 1} should be empty, to have place for: {text}")
    lines[at] = text
