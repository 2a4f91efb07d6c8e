"""The rules for strings: length, pattern and format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import re2

from kapi.api.fielderror import too_long
from kapi.schema.formats import VALIDATORS, normalized
from kapi.schema.patterns import OPTIONS, pattern_problem
from kapi.schema.structural.messages import invalid, wrong_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kapi.api.fielderror import FieldError
    from kapi.schema.structural.model import Schema


def searcher(pattern: str) -> Callable[[str], bool]:
    """A function that returns True if a text contains a match of the pattern. Raises `re2.error`."""
    # Bytes save the engine's wrapper from converting offsets, which are not used, into those of characters.
    search: Callable[[bytes], Any] = re2.compile(pattern.encode(), OPTIONS).search
    return lambda text: search(text.encode()) is not None


def _never(_: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class StringRules:
    """The constraints on strings at one place of a schema. `wanted` is the pattern as messages show it."""

    min_length: int | None
    max_length: int | None
    matches: Callable[[str], bool] | None
    wanted: str
    format: str
    fits: Callable[[str], bool] | None

    @classmethod
    def of(cls, schema: Schema) -> StringRules:
        """The rules of a schema, with its pattern compiled. One that does not compile matches nothing."""
        matches: Callable[[str], bool] | None = None
        wanted = schema.pattern
        if schema.pattern:
            try:
                matches = searcher(schema.pattern)
            except re2.error:
                matches, wanted = _never, f"{schema.pattern}, but pattern is invalid: {pattern_problem(schema.pattern)}"
        name = schema.supported_format
        return cls(schema.min_length, schema.max_length, matches, wanted, name, VALIDATORS.get(normalized(name)))

    def accepts(self) -> Callable[[str], bool] | None:
        """A function that returns True for valid strings; None when all are valid."""
        low, high = self.min_length or 0, self.max_length
        matches, fits = self.matches, self.fits
        if high is None and not low:
            if matches is None or fits is None:
                return matches or fits
            return lambda text: matches(text) and fits(text)
        most = float("inf") if high is None else high
        if matches is None and fits is None:
            return lambda text: low <= len(text) <= most
        return lambda text: (
            low <= len(text) <= most and (matches is None or matches(text)) and (fits is None or fits(text))
        )

    def errors(self, text: str, path: str) -> Iterator[FieldError]:
        """The errors of a string at a path: at most one of length and pattern, then the format."""
        if self.max_length is not None and len(text) > self.max_length:
            yield too_long(path, self.max_length)
        elif self.min_length is not None and len(text) < self.min_length:
            yield invalid(path, text, f"{path} in body should be at least {self.min_length} chars long")
        elif self.matches is not None and not self.matches(text):
            yield invalid(path, text, f"{path} in body should match '{self.wanted}'")
        if self.fits is not None and not self.fits(text):
            yield wrong_type(path, text, self.format)
