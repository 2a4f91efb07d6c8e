"""The docstrings of classes and of their fields, for the descriptions in a schema.

A field's docstring is the string that follows it. Python forgets it, so it is read from the source; where there is no
source, there is no description.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap


def class_doc(cls: type) -> str:
    """What a class says of itself; not what its base says."""
    text = cls.__dict__.get("__doc__")
    return _plain(text) if isinstance(text, str) else ""


@functools.cache
def field_docs(cls: type) -> dict[str, str]:
    """What a class says of its fields, those of its bases included."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__ not in ("builtins", "msgspec"):
            docs |= _own_docs(base)
    return docs


def _own_docs(cls: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}
    definition = tree.body[0] if tree.body else None
    if not isinstance(definition, ast.ClassDef):
        return {}
    docs: dict[str, str] = {}
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
