r"""JSONPath as Kubernetes writes it: `.spec.ports[0].name`, `.status.conditions[?(@.type=="Ready")].status`.

Custom resource definitions use it for printer columns and selectable fields. A path is read once and becomes a chain
of functions (`steps`). The dialect is a template language in disguise, the path being what stands between
braces, and its oddities are kept because definitions in the wild lean on them: `['a.b']` means `.a.b`, a dot in a key
is written `\.`, an index outside its list is an error while a missing key is not.

Pure, and bounded: the length of a path, its nesting, and the values one search may touch.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kapi.api.jsonpath import steps
from kapi.api.jsonpath.steps import MAX_INT64, MIN_INT64, Bound, Effort, JSONPathError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kapi.api.jsonpath.steps import Step

__all__ = ["JSONPathError", "Path", "compile_path", "simple_path"]

_MAX_LENGTH: Final = 4096
_MAX_NESTING: Final = 16


class Path:
    """A compiled path. It keeps no state between searches."""

    __slots__ = ("_find", "text")

    def __init__(self, text: str, actions: Sequence[Sequence[Step]]) -> None:
        self.text = text
        names = [step.name for step in actions[0] if isinstance(step, steps.Field)]
        is_plain = len(actions) == 1 and len(names) == len(actions[0])
        self._find = _through(names) if is_plain else _stepwise(actions)

    def find(self, obj: Any, effort: Effort | None = None) -> list[Any]:
        """The values at the path, in order; missing keys lead to nothing. Raises JSONPathError for what does not fit.

        What does not fit is an index outside its list, a filter on what is no list, a comparison of unlike values, and
        a search that touches more values than the effort allows, which may be shared with other searches.
        """
        return self._find(obj, effort)


def compile_path(text: str) -> Path:
    """Read a path as a definition spells it, without braces; raises JSONPathError."""
    if len(text) > _MAX_LENGTH:
        raise JSONPathError(f"the path is longer than {_MAX_LENGTH} characters")
    return Path(text, _Parser(f"{{{text}}}", 0).template())


def simple_path(text: str) -> tuple[str, ...]:
    """The names in a path of the scale sub-resource, `.spec.replicas`; these know no quoting and no lists."""
    return tuple(text.removeprefix(".").split("."))


def _through(names: list[str]) -> Callable[[Any, Effort | None], list[Any]]:
    """The common case: one name after the other."""

    def find(obj: Any, _effort: Effort | None) -> list[Any]:
        for name in names:
            if not isinstance(obj, dict) or name not in obj:
                return []
            obj = obj[name]
        return [obj]

    return find


def _stepwise(actions: Sequence[Sequence[Step]]) -> Callable[[Any, Effort | None], list[Any]]:
    def find(obj: Any, effort: Effort | None) -> list[Any]:
        effort = effort or Effort()
        # Only what the first action finds is used, but a later one that fails spoils it.
        first, *_ = [steps.run(action, [obj], effort) for action in actions]
        return first

    return find


# -- reading ----------------------------------------------------------------------------------------------------------

_name = re.compile(r"(?:\\(?:.|\Z)|[^\\ \t\r\n.,\[\]$@{}])*", re.DOTALL).match
_word = re.compile(r"[^ \t\r\n.,\[\]$@{}]+").match
_number = re.compile(r"[+-]?[.\d]*").match
_bracket = re.compile(r"[^\]\n]*\]").match
_key = re.compile(r"'([^']*)'").fullmatch
_indices = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?").fullmatch
_comparing = re.compile(r"([^!<>=]+)([!<>=]+)(.+)").fullmatch
_whole = re.compile(r"[+-]?[0-9]+").fullmatch
_decimal = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)").fullmatch


class _Parser:
    """One walk over a template; `at` is the next character to read."""

    def __init__(self, text: str, nesting: int) -> None:
        if nesting > _MAX_NESTING:
            raise JSONPathError(f"the path nests deeper than {_MAX_NESTING} levels")
        self.text = text
        self.nesting = nesting
        self.at = 0

    def template(self) -> list[list[Step]]:
        """Return the actions, which are in braces, and the texts between them."""
        found: list[list[Step]] = []
        while self.at < len(self.text):
            if self.text[self.at] == "{":
                self.at += 1
                found.append(self._action())
            else:
                end = self.text.find("{", self.at)
                start, self.at = self.at, end if end >= 0 else len(self.text)
                found.append([steps.text(self.text[start : self.at])])
        return found

    def _action(self) -> list[Step]:
        found: list[Step] = []
        while not self.text.startswith("}", self.at):
            if self.text.startswith("[?(", self.at):
                found.append(self._filter())
            elif self.text.startswith("..", self.at):
                found += self._descent(found)
            else:
                found += self._step()
        self.at += 1
        return found

    def _step(self) -> Sequence[Step]:
        char = self.text[self.at : self.at + 1]
        if char in ("", "\r", "\n"):
            raise JSONPathError("unclosed action")
        if char in " @$":
            self.at += 1
            return ()
        if char == "[":
            return self._array()
        if char in "\"'":
            return (steps.text(self._quoted(char)),)
        if char == ".":
            self.at += 1
            return (self._field(),)
        if char in "+-" or char.isdecimal():
            return (steps.constant(self._number()),)
        if char == "_" or char.isalpha():
            return (self._word(),)
        shown = f"U+{ord(char):04X} '{char}'" if char.isprintable() else f"U+{ord(char):04X}"
        raise JSONPathError(f"unrecognized character in action: {shown}")

    def _take(self, pattern: Callable[[str, int], re.Match[str] | None]) -> str:
        match = pattern(self.text, self.at)
        taken = match[0] if match else ""
        self.at += len(taken)
        return taken

    def _nested(self, text: str) -> list[Step]:
        return _Parser(f"{{{text}}}", self.nesting + 1).template()[0]

    def _field(self) -> Step:
        name = self._take(_name)
        return steps.wildcard if name == "*" else steps.Field(name.replace("\\", ""))

    def _descent(self, before: list[Step]) -> list[Step]:
        if before and before[-1] is steps.descent:
            raise JSONPathError("invalid multiple recursive descent")
        self.at += 2
        following = self.text[self.at : self.at + 1]
        has_name = following == "_" or following.isalpha() or following.isdecimal()
        return [steps.descent, self._field()] if has_name else [steps.descent]

    def _word(self) -> Step:
        word = self._take(_word)
        return steps.constant(word == "true") if word in ("true", "false") else steps.identifier(word)

    def _number(self) -> float:
        digits = self._take(_number)
        if _whole(digits) and MIN_INT64 <= int(digits) <= MAX_INT64:
            return int(digits)
        value = float(digits) if _decimal(digits) else float("inf")
        if value in (float("inf"), float("-inf")):
            raise JSONPathError(f"cannot parse number {digits}")
        return value

    def _quoted(self, quote: str) -> str:
        start = self.at
        end = self.text.find(quote, start + 1)
        while end >= 0 and self.text[end - 1] == "\\":
            end = self.text.find(quote, end + 1)
        if end < 0 or "\n" in self.text[start:end]:
            raise JSONPathError("unterminated quoted string")
        self.at = end + 1
        return _unquote(self.text[start : self.at])

    def _array(self) -> Sequence[Step]:
        bracket = self._take(_bracket)
        if not bracket:
            raise JSONPathError("unterminated array")
        text = ":" if bracket == "[*]" else bracket[1:-1]
        if "," in text:
            members = [self._nested(f"[{member.strip(' ')}]") for member in text.split(",")]
            return (steps.union(members),)
        key = _key(text)
        if key:
            return self._nested(f".{key[1]}")
        indices = _indices(text)
        if not indices:
            raise JSONPathError(f"invalid array index {text}")
        return (steps.slices(*_bounds(*indices.groups(""))),)

    def _filter(self) -> Step:
        self.at += len("[?(")
        text = self._filtered()
        if not self.text.startswith("]", self.at):
            raise JSONPathError("unclosed array expect ]")
        self.at += 1
        parts = _comparing(text)
        if not parts:
            return steps.exists(self._nested(text))
        return steps.comparison(self._nested(parts[1]), self._nested(parts[3]), parts[2])

    def _filtered(self) -> str:
        """The text up to the parenthesis that closes; one inside the first pair of quotes does not."""
        pair, is_closed, start = "", False, self.at
        for at in range(start, len(self.text)):
            char = self.text[at]
            if char == "\n":
                break
            if char in "\"'":
                is_closed = is_closed or (char == pair and self.text[at - 1] != "\\")
                pair = pair or char
            elif char == ")" and bool(pair) == is_closed:
                self.at = at + 1
                return self.text[start:at]
        raise JSONPathError("unterminated filter")


def _bounds(start: str, end: str, step: str) -> tuple[Bound, Bound, Bound]:
    first = Bound(_index(start) if start else None)
    last = Bound(_optional_index(end)) if end else Bound((first.value or 0) + 1, is_derived=True)
    return first, last, Bound(_optional_index(step))


def _optional_index(text: str) -> int | None:
    return _index(text[1:]) if text[1:] else None


def _index(text: str) -> int:
    if text == "-" or not MIN_INT64 <= int(text) <= MAX_INT64:
        raise JSONPathError(f"array index {text} is not a number")
    return int(text)


_escape = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|([abfnrtv\\'\"]))").match
_CONTROLS: Final = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}


def _unquote(quoted: str) -> str:
    """The text of a literal in either kind of quotes."""
    quote, inner = quoted[0], quoted[1:-1]
    if "\\" not in inner:
        return inner
    read, at = bytearray(), 0
    while at < len(inner):
        if inner[at] != "\\":
            read += inner[at].encode(errors="replace")
            at += 1
            continue
        match = _escape(inner, at)
        char = _unescaped(match, quote) if match else None
        if match is None or char is None:
            raise JSONPathError(f"unquote string {quoted} error invalid syntax")
        read += char
        at = match.end()
    return read.decode(errors="replace")


def _unescaped(match: re.Match[str], quote: str) -> bytes | None:
    """The bytes of one escape; None when it is none, such as the other kind of quote."""
    byte, short, long, octal, letter = match.groups()
    if letter:
        if letter in "\"'" and letter != quote:
            return None
        return bytes([_CONTROLS[letter]]) if letter in _CONTROLS else letter.encode()
    if byte or octal:
        value = int(byte, 16) if byte else int(octal, 8)
        return bytes([value]) if value <= 0xFF else None
    point = int(short or long, 16)
    is_character = point <= 0x10FFFF and not 0xD800 <= point <= 0xDFFF
    return chr(point).encode() if is_character else None
