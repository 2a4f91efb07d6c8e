"""The lexer: tokens of an expression, and the values of literals.

Text that starts no token becomes an issue and is skipped, so that the parser can go on and find more. Lexing takes time
linear in the length of the text.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kapi.schema.cel.syntax.issues import Issue

IDENTIFIER: Final = "IDENTIFIER"
QUOTED: Final = "ESC_IDENTIFIER"
INT: Final = "NUM_INT"
UINT: Final = "NUM_UINT"
FLOAT: Final = "NUM_FLOAT"
STRING: Final = "STRING"
BYTES: Final = "BYTES"
END: Final = "<EOF>"

_WORDS: Final = frozenset({"true", "false", "null", "in"})
_HEX: Final = "[0-9a-fA-F]"
_ESCAPE: Final = rf"\\(?:[abfnrtv\"'\\?`]|[xX]{_HEX}{{2}}|u{_HEX}{{4}}|U{_HEX}{{8}}|[0-3][0-7][0-7])"
_TEXT: Final = rf"""
    \"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\" | '''(?:{_ESCAPE}|[^\\])*?''' |
    "(?:{_ESCAPE}|[^\\"\n\r])*" | '(?:{_ESCAPE}|[^\\'\n\r])*' |
    [rR](?: \"\"\"[\s\S]*?\"\"\" | '''[\s\S]*?''' | "[^"\n\r]*" | '[^'\n\r]*' )
"""
_TOKEN: Final = re.compile(
    rf"""
    (?P<SKIP> [\t\ \r\n\f]+ | //[^\n]* ) |
    (?P<BYTES> [bB](?:{_TEXT}) ) |
    (?P<STRING> {_TEXT} ) |
    (?P<IDENTIFIER> [A-Za-z_][A-Za-z0-9_]* ) |
    (?P<NUM_FLOAT> [0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ | \.[0-9]+(?:[eE][+-]?[0-9]+)? ) |
    (?P<NUM_UINT> (?:0x{_HEX}+|[0-9]+)[uU] ) |
    (?P<NUM_INT> 0x{_HEX}+ | [0-9]+ ) |
    (?P<SIGN> == | != | <= | >= | && | \|\| | [][(){{}}<>.,\-!?:+*/%] ) |
    (?P<ESC_IDENTIFIER> `[A-Za-z0-9_./\ -]+` )
    """,
    re.VERBOSE,
)
_PARTIAL_ESCAPE: Final = rf"(?:\\(?:[xX]{_HEX}?|u{_HEX}{{0,3}}|U{_HEX}{{0,7}}|[0-3][0-7]?)?)?"
_PARTIAL: Final = re.compile(
    rf""" "(?:{_ESCAPE}|[^\\"\n\r])*{_PARTIAL_ESCAPE} | '(?:{_ESCAPE}|[^\\'\n\r])*{_PARTIAL_ESCAPE} |
    `[A-Za-z0-9_./\ -]* | & | \| | = | """,
    re.VERBOSE,
)
_MOST_ISSUES: Final = 100


class Token(NamedTuple):
    """A token. The kind of an operator or keyword is its own text."""

    kind: str
    text: str
    offset: int


def tokenize(source: str) -> tuple[list[Token], list[Issue]]:
    """The tokens, followed by an END token, and the issues of text that is no token."""
    tokens: list[Token] = []
    issues: list[Issue] = []
    at, match = 0, _TOKEN.match
    while at < len(source):
        found = match(source, at)
        if found is None:
            at = _skip(source, at, issues)
            if len(issues) > _MOST_ISSUES:
                break
            continue
        end, kind = found.end(), found.lastgroup or ""
        if kind != "SKIP":
            text = source[at:end]
            tokens.append(Token(text if kind == "SIGN" or text in _WORDS else kind, text, at))
        at = end
    tokens.append(Token(END, END, len(source)))
    return tokens, issues


def _skip(source: str, at: int, issues: list[Issue]) -> int:
    if len(issues) == _MOST_ISSUES:
        issues.append(Issue(at, f"Syntax error: More than {_MOST_ISSUES} syntax errors"))
        return at
    partial = _PARTIAL.match(source, at)
    # What began like a token is dropped up to and with the character at which it ceased to be one.
    end = (partial.end() if partial else at) + 1
    issues.append(Issue(at, f"Syntax error: token recognition error at: '{source[at:end]}'"))
    return end


_ESCAPED: Final = re.compile(
    rf"\\(?:(?P<sign>[abfnrtv\"'\\?`])|[xX](?P<byte>{_HEX}{{2}})"
    rf"|u(?P<short>{_HEX}{{4}})|U(?P<long>{_HEX}{{8}})|(?P<octal>[0-7]{{3}}))"
)
_SIGNS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LARGEST_INT: Final = 2**63 - 1
_LARGEST_UINT: Final = 2**64 - 1
_MOST_DIGITS: Final = 20


def string_value(text: str) -> str:
    """The value of a string literal. ValueError for an escape that is no character."""
    body, raw = _unquote(text)
    return body if raw else _ESCAPED.sub(_character, body)


def bytes_value(text: str) -> bytes:
    """The value of a bytes literal: UTF-8, in which octal and `x` escapes are single bytes."""
    body, raw = _unquote(text[1:])
    if raw:
        return _encode(body)
    parts = []
    at = 0
    for found in _ESCAPED.finditer(body):
        if found["short"] or found["long"]:
            raise ValueError("unable to unescape string")
        byte = found["byte"] or found["octal"]
        value = bytes([int(byte, 16 if found["byte"] else 8)]) if byte else _encode(_character(found))
        parts += [_encode(body[at : found.start()]), value]
        at = found.end()
    return b"".join([*parts, _encode(body[at:])])


def int_value(text: str) -> int:
    """The value of `12` or `-0x1f`. ValueError when it does not fit 64 bits."""
    value = _integer(text.removeprefix("-"))
    value = -value if text.startswith("-") else value
    if not -_LARGEST_INT - 1 <= value <= _LARGEST_INT:
        raise ValueError("invalid int literal")
    return value


def uint_value(text: str) -> int:
    """The value of `12u`. ValueError when it does not fit 64 bits."""
    value = _integer(text[:-1])
    if value > _LARGEST_UINT:
        raise ValueError("invalid uint literal")
    return value


def double_value(text: str) -> float:
    """The value of `1.5e3`. ValueError when it is too large for a double."""
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("invalid double literal")
    return value


def _integer(text: str) -> int:
    digits = text.removeprefix("0x").lstrip("0") or "0"
    # Longer ones are too large in any case; reading them would take time quadratic in their length.
    return int(digits, 16 if text.startswith("0x") else 10) if len(digits) <= _MOST_DIGITS else _LARGEST_UINT + 1


def _unquote(text: str) -> tuple[str, bool]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    text = text[raw:]
    width = 3 if len(text) >= 6 and text.startswith(('"""', "'''")) else 1
    return text[width:-width], raw or "\\" not in text


def _character(found: re.Match[str]) -> str:
    if found["sign"]:
        return _SIGNS.get(found["sign"], found["sign"])
    if found["octal"]:
        return chr(int(found["octal"], 8))
    point = int(found["byte"] or found["short"] or found["long"], 16)
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(point)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
