"""Errors of regular expressions, in the words of Go's regexp package.

Patterns come from users, so they run on RE2, which takes time linear in the text. Go's engine has the same syntax and
other error messages.
"""

from __future__ import annotations

from typing import Final

import re2

OPTIONS: Final = re2.Options()
OPTIONS.log_errors = False
OPTIONS.never_capture = True
# Go has no such limit; with the default one, counted classes of Unicode letters do not compile.
OPTIONS.max_mem = 64 << 20

_WORDS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "trailing \\": "trailing backslash at end of expression",
    "pattern too large - compile failed": "expression too large",
}
"""RE2's words for an error, where Go has others."""


def pattern_problem(pattern: str) -> str | None:
    """The reason why the pattern cannot be compiled; None when it can."""
    try:
        re2.compile(pattern, OPTIONS)
    except re2.error as error:
        said = error.args[0]
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        what, _, where = text.partition(": ")
        return f"error parsing regexp: {_WORDS.get(what, what)}: `{where}`"
    return None
