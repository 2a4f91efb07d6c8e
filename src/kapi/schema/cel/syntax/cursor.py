"""The position among the tokens of an expression, and the errors for unexpected tokens.

Where one token is too much, or one is missing that can be guessed, the cursor reports it and continues, so that an
author sees more than the first error. Otherwise it stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.schema.cel.syntax import lexer
from kapi.schema.cel.syntax.issues import Issue
from kapi.schema.cel.syntax.lexer import END, IDENTIFIER, QUOTED, Token

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from typing import NoReturn

LITERALS: Final = ("true", "false", "null", lexer.FLOAT, lexer.INT, lexer.UINT, lexer.STRING, lexer.BYTES)
OPERAND: Final = frozenset({"[", "{", "(", ".", "-", "!", *LITERALS, IDENTIFIER})
"""The tokens that an operand may begin with."""

_ORDER: Final = ("[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", *LITERALS, IDENTIFIER, QUOTED, END)


class Stop(Exception):
    """The parser cannot continue after this token."""


class Cursor:
    """Walks over tokens, of which the last is END, and collects issues."""

    def __init__(self, source: str, tokens: list[Token], issues: list[Issue]) -> None:
        self.issues = issues
        self._source = source
        self.token = tokens[0]
        self._tokens = tokens
        self._at = 0

    def peek(self, ahead: int = 1) -> Token:
        """The token that is so many tokens ahead."""
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def advance(self, count: int = 1) -> Token:
        """Advance, and return the token that was current."""
        token = self.token
        self._at += count
        self.token = self._tokens[self._at]
        return token

    def expect(self, kind: str, followers: AbstractSet[str]) -> None:
        """Consume a token. If it is missing before one of `followers`, report it and continue."""
        if self.token.kind == kind or self.skips_to({kind}):
            if kind != END:
                self.advance()
        elif self.token.kind in followers:
            self.report(self.token, f"missing '{kind}' at '{self.token.text}'")
        else:
            self.mismatch({kind})

    def expect_one_of(self, kinds: AbstractSet[str]) -> None:
        """Stop unless the current token is one of these, possibly after one extraneous token."""
        if self.token.kind not in kinds and not self.skips_to(kinds):
            self.mismatch(kinds)

    def skips_to(self, kinds: AbstractSet[str]) -> bool:
        """Skip one extraneous token if an expected one follows it; return True if so."""
        token = self.token
        if token.kind == END or self.peek().kind not in kinds:
            return False
        self.report(token, f"extraneous input '{token.text}' expecting {_names(kinds)}")
        self.advance()
        return True

    def mismatch(self, kinds: AbstractSet[str]) -> NoReturn:
        """Stop with a mismatched-input error."""
        self.stop(self.token, f"mismatched input '{self.token.text}' expecting {_names(kinds)}")

    def no_viable_alternative(self, start: Token, token: Token) -> NoReturn:
        """Stop because no rule of the grammar matches the text from one token to another."""
        text = self._source[start.offset : token.offset + (0 if token.kind == END else len(token.text))]
        if text in (".true", ".false", ".null"):
            self.stop(token, f"mismatched input '{token.text}' expecting {IDENTIFIER}")
        self.stop(token, f"no viable alternative at input '{text}'")

    def stop(self, token: Token, message: str) -> NoReturn:
        """Report a token, and stop."""
        self.report(token, message)
        raise Stop

    def report(self, token: Token, message: str) -> None:
        """Add a syntax error."""
        self.issues.append(Issue(token.offset, f"Syntax error: {message}"))


def _names(kinds: AbstractSet[str]) -> str:
    names = [kind if kind.isupper() or kind == END else f"'{kind}'" for kind in _ORDER if kind in kinds]
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"
