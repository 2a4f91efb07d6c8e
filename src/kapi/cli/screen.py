"""A terminal as a screen: tables as lines, and a picture that is drawn again in place."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Self, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GAP: Final = "   "
_ENTER: Final = "\x1b[?1049h\x1b[?25l"  # the alternate screen, without a cursor
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_END_OF_LINE: Final = "\x1b[K\n"
_REST: Final = "\x1b[J"
_FALLBACK: Final = os.terminal_size((80, 24))


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out rows of equal length in columns; the first one is usually the head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    return [
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in ([printable(cell) for cell in row] for row in rows)
    ]


def printable(text: str) -> str:
    """A text in one line without control characters, which would be commands to the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


class Screen:
    """The alternate screen of a terminal: `with Screen(sys.stdout) as screen: screen.draw(lines)`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        self._write(_ENTER)
        return self

    def __exit__(self, *exc: object) -> None:
        self._write(_LEAVE)

    @property
    def size(self) -> os.terminal_size:
        """Columns and lines, as they are now."""
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except OSError:
            return _FALLBACK
        return size if size.columns and size.lines else _FALLBACK

    def draw(self, lines: Iterable[str]) -> None:
        """Show lines in the place of those that are shown; what does not fit is cut off."""
        columns, height = self.size
        shown = [line[: columns - 1] + _END_OF_LINE for line in list(lines)[: height - 1]]
        self._write(_HOME + "".join(shown) + _REST)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
