"""Import statements and `__all__` as linters sort them.

Only what a generated package needs: `from module import name`, of the standard library, of installed packages and of
the package itself, in that order.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from kapi.scaffold.source import WIDTH, Brackets, laid_out, text

if TYPE_CHECKING:
    from collections.abc import Iterable

_STEP: Final = "    "
_DIGITS: Final = re.compile(r"([0-9]+)")


def imports(wanted: Iterable[tuple[str, str]]) -> list[str]:
    """The lines that import names from modules; a name may be `Name as Other`, which gets a line of its own."""
    modules: dict[str, set[str]] = {}
    for module, name in wanted:
        modules.setdefault(module, set()).add(name)
    sections: dict[int, list[str]] = {}
    for module in sorted(modules, key=lambda module: _natural(module.lower())):
        sections.setdefault(_section(module), []).extend(_from(module, modules[module]))
    lines: list[str] = []
    for section in sorted(sections):
        lines += ["", *sections[section]] if lines else sections[section]
    return lines


def _section(module: str) -> int:
    if module.startswith("."):
        return 2
    return 0 if module.partition(".")[0] in sys.stdlib_module_names else 1


def _from(module: str, names: Iterable[str]) -> list[str]:
    plain = sorted((name for name in names if " as " not in name), key=_member)
    statements = [(name, _statement(module, [name])) for name in names if " as " in name]
    if plain:
        statements.append((plain[0], _statement(module, plain)))
    return [line for _, lines in sorted(statements, key=lambda one: _member(one[0])) for line in lines]


def _statement(module: str, names: list[str]) -> list[str]:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return [line]
    return [f"from {module} import (", *(f"{_STEP}{name}," for name in names), ")"]


def exported(names: Iterable[str]) -> list[str]:
    """`__all__`, sorted."""
    ordered = sorted(set(names), key=lambda name: (_rank(name), _natural(name)))
    return laid_out(Brackets("[", tuple(map(text, ordered)), "]"), "", "__all__ = ")


def _member(name: str) -> tuple[int, list[tuple[int, str]]]:
    bare = name.partition(" as ")[0]
    return _rank(bare), _natural(bare.lower())


def _rank(name: str) -> int:
    """Constants first, then classes, then the rest."""
    if len(name) > 1 and name.isupper():
        return 0
    return 1 if name[:1].isupper() else 2


def _natural(name: str) -> list[tuple[int, str]]:
    """A key under which numbers are in the order of their values: v2 comes before v10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(name) if part]
