"""Property names as they are written in expressions, where only letters, digits and underscores make a name.

`a.b` is written `a__dot__b`, `a-b` is `a__dash__b`, `a/b` is `a__slash__b`, a double underscore is `__underscores__`,
and a word of the language such as `in` is `__in__`. Names with any other character cannot be reached from expressions.
"""

from __future__ import annotations

import re
from typing import Final

RESERVED: Final = frozenset(
    {
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    }
)

_WORDS: Final = {"__": "underscores", ".": "dot", "-": "dash", "/": "slash"}
_SIGNS: Final = {word: sign for sign, word in _WORDS.items()}
_WRITABLE: Final = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_SIGN: Final = re.compile(r"__|[-./]")
_ESCAPE: Final = re.compile(r"__([^_]+)__")


def escape(name: str) -> str | None:
    """The name of a property in expressions; None when expressions cannot name it."""
    if name in RESERVED:
        return f"__{name}__"
    if not _WRITABLE.fullmatch(name):
        return None
    return _SIGN.sub(lambda found: f"__{_WORDS[found[0]]}__", name)


def unescape(name: str) -> str:
    """The property that a name in an expression means; a name without known escapes is returned as it is."""
    if "__" not in name:
        return name
    return _ESCAPE.sub(lambda found: _meaning(found[1], found[0] == name) or found[0], name)


def _meaning(word: str, alone: bool) -> str | None:
    if alone and word in RESERVED:
        return word
    return _SIGNS.get(word)
