"""The classes that are to be written, and their text."""

from __future__ import annotations

import enum
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kapi.scaffold.source import WIDTH, assignment, call, identifiers, laid_out, literal, sequence, subscript, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kapi.scaffold.source import Brackets, Expression

_INDENT: Final = "    "
_RULE_FIELDS: Final = {
    "message": "message",
    "messageExpression": "message_expression",
    "reason": "reason",
    "fieldPath": "field_path",
    "optionalOldSelf": "optional_old_self",
}


class NoTypes(ValueError):
    """A definition that no classes can be made of; the text says why."""


class Presence(enum.Enum):
    """The effect of leaving a field unset."""

    REQUIRED = enum.auto()
    ABSENT = enum.auto()
    DEFAULTED = enum.auto()
    """The server fills in the default that the class has."""
    NOTED = enum.auto()
    """The server fills in something that only a marker can say."""


@dataclass(slots=True)
class Attribute:
    """A field of a class. `value` is what stands behind the equals sign; required fields may have none."""

    name: str
    annotation: Expression
    value: Expression | None
    doc: str = ""
    presence: Presence = Presence.ABSENT


@dataclass(slots=True)
class ClassModel:
    """A class: an object of the schema, or a whole kind when it has a decorator."""

    name: str
    doc: str = ""
    attributes: list[Attribute] = field(default_factory=list)
    rules: list[Mapping[str, Any]] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    decorator: Expression | None = None

    def lines(self) -> Iterator[str]:
        """The source of the class."""
        if self.decorator is not None:
            yield from laid_out(self.decorator, "", "@")
        yield from self._header()
        yield from docstring(self.doc)
        blocks = [list(block) for block in (self._own(), self._fields())]
        for index, block in enumerate(block for block in blocks if block):
            if self.doc.strip() or index:
                yield ""
            yield from block
        if not self.doc.strip() and not any(blocks):
            yield f"{_INDENT}pass"

    def _header(self) -> list[str]:
        bases = f"crd.{'Model' if self.decorator is None else 'CustomResource'}, kw_only=True"
        line = f"class {self.name}({bases}):"
        return [line] if len(line) <= WIDTH else [f"class {self.name}(", f"{_INDENT}{bases}", "):"]

    def identifiers(self) -> set[str]:
        """The names its source uses, but for the base."""
        used = {"ClassVar"} if self.rules or self.extra else set()
        used |= {"Any"} if self.extra else set()
        for attribute in self.attributes:
            used |= identifiers(attribute.annotation)
            used |= identifiers(attribute.value) if attribute.value is not None else set()
        return used

    def _own(self) -> Iterator[str]:
        if self.rules:
            annotation = subscript("ClassVar", subscript("tuple", "crd.Rule", "..."))
            yield from assignment("RULES", annotation, sequence(map(rule, self.rules)))
        if self.extra:
            yield from assignment("SCHEMA", "ClassVar[dict[str, Any]]", literal(self.extra))

    def _fields(self) -> Iterator[str]:
        for attribute in self.attributes:
            yield from assignment(attribute.name, attribute.annotation, attribute.value)
            yield from docstring(attribute.doc)


def rule(props: Mapping[str, Any]) -> Brackets:
    """A validation rule, as a marker."""
    named = {name: literal(props[key]) for key, name in _RULE_FIELDS.items() if key in props}
    return call("crd.Rule", text(props.get("rule", "")), **named)


def docstring(value: str, indent: str = _INDENT) -> Iterator[str]:
    """A description as a docstring, its lines kept and wrapped; nothing when there is none."""
    width = WIDTH - len(indent) - len('"""')
    lines = _wrapped(value, width)
    if len(lines) == 1:
        # Formatters put the closing quotes behind a single line, however long it is.
        lines = _wrapped(value, width - len('"""'))
    if not lines:
        return
    if len(lines) == 1 and not lines[0].endswith('"'):
        yield f'{indent}"""{lines[0]}"""'
        return
    yield f'{indent}"""{lines[0]}'
    yield from (f"{indent}{line}".rstrip() for line in lines[1:])
    yield f'{indent}"""'


def _wrapped(value: str, width: int) -> list[str]:
    return [
        line
        for paragraph in _escaped(value).strip().splitlines()
        for line in textwrap.wrap(paragraph, width, break_long_words=False, break_on_hyphens=False) or [""]
    ]


def _escaped(value: str) -> str:
    quoted = value.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return "".join(letter if letter.isprintable() or letter.isspace() else repr(letter)[1:-1] for letter in quoted)
