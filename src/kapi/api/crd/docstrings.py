"""The docstrings of classes and of their fields, for the descriptions in a schema.

A field's docstring is the string that follows it. Python forgets it, so it is read from the source of the module, once
for all of its classes; where there is no source, there is no description.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    Docs = dict[str, str]

_OURS = "kapi.api."
"""Built-in classes are described by Kubernetes at length; a definition that uses them does not repeat it."""


def class_doc(cls: type) -> str:
    """Return the docstring of a class itself, not that of its base."""
    text = cls.__dict__.get("__doc__")
    return _plain(text) if isinstance(text, str) and not cls.__module__.startswith(_OURS) else ""


def field_docs(cls: type) -> Docs:
    """Return the docstrings of the fields of a class, those of its bases included."""
    docs: Docs = {}
    for base in reversed(cls.__mro__):
        module = sys.modules.get(base.__module__)
        if module is not None and not base.__module__.startswith(_OURS):
            docs |= _module_docs(module).get(base.__qualname__, {})
    return docs


@functools.lru_cache(maxsize=64)
def _module_docs(module: ModuleType) -> dict[str, Docs]:
    """Return the docstrings of the fields of a module's classes, by the qualified names of the classes."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return {}
    return {name: docs for name, definition in _classes(tree, "") if (docs := _own_docs(definition))}


def _classes(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield f"{prefix}{node.name}", node
            yield from _classes(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(node, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.stmt):
            yield from _classes(node, prefix)


def _own_docs(definition: ast.ClassDef) -> Docs:
    docs: Docs = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            docs[field.target.id] = _plain(text.value.value)
    return docs


def _plain(text: str) -> str:
    """Paragraphs of one line each, as schemas have them."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs if paragraph.strip())
