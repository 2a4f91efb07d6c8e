"""Issues of an expression, and how they are printed: position, message, the line, and a caret below it.

The parser and the checker collect issues and raise them together, so that an author sees all of them at once. Clients
and people compare these texts, so their form is part of the contract.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

_MOST_SHOWN: Final = 100
_LONGEST_LINE: Final = 16384
"""In bytes: longer lines are not shown."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One error. The offset counts characters into the source; None is about the expression as a whole."""

    offset: int | None
    message: str


class ExpressionErrors(Exception):
    """An expression was refused. `issues` has the reasons; `str()` shows them in the order of the source."""

    def __init__(self, source: str, issues: list[Issue]) -> None:
        super().__init__(source, issues)
        self.source = source
        self.issues = sorted(issues, key=lambda issue: -1 if issue.offset is None else issue.offset)

    def __str__(self) -> str:
        shown = [*_render(self.source, self.issues[:_MOST_SHOWN])]
        if len(self.issues) > _MOST_SHOWN:
            shown.append(f"{len(self.issues) - _MOST_SHOWN} more errors were truncated")
        return "\n".join(shown)


def _render(source: str, issues: list[Issue]) -> list[str]:
    starts = [0, *(at + 1 for at, character in enumerate(source) if character == "\n")]
    lines = source.split("\n")
    return [_render_one(issue, starts, lines) for issue in issues]


def _render_one(issue: Issue, starts: list[int], lines: list[str]) -> str:
    if issue.offset is None:
        return f"ERROR: <input>:-1:0: {issue.message}"
    line = bisect_right(starts, issue.offset) - 1
    column = issue.offset - starts[line]
    text = f"ERROR: <input>:{line + 1}:{column + 1}: {issue.message}"
    shown = lines[line].replace("\t", " ")
    if len(shown.encode(errors="replace")) > _LONGEST_LINE:
        return text
    # Full-width signs keep the caret below characters that are wide themselves.
    dots = "".join("." if character.isascii() else "\uff0e" for character in shown[:column])
    caret = "^" if shown[column : column + 1].isascii() else "\uff3e"
    return f"{text}\n | {shown}\n | {dots}{caret}"
