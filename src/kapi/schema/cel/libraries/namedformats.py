"""Named formats: `format.dns1123Label().validate('x')` returns the errors of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kapi.api import names
from kapi.schema.cel.cost.calls import PATTERN_FACTOR, READ_FACTOR, CallCost, CallSite
from kapi.schema.cel.cost.estimates import Estimate
from kapi.schema.cel.cost.prices import library_size, pattern_factor, text_price
from kapi.schema.cel.libraries.gourl import BadUrl, parse_request
from kapi.schema.cel.library import Library
from kapi.schema.cel.types import STRING, Overload, Type, list_of, optional_of
from kapi.schema.cel.values import NONE, Opaque, Optional
from kapi.schema.formats import VALIDATORS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Validate = Callable[[str], list[str]]

FORMAT_TYPE: Final = Type("kubernetes.NamedFormat")


@dataclass(frozen=True, slots=True, eq=False)
class Format(Opaque):
    """A format: its validation function, and the size of the pattern that costs are counted with."""

    cel_type: ClassVar[Type] = FORMAT_TYPE

    name: str
    validate: Validate
    pattern_size: int

    def same(self, other: Format) -> bool:
        """Return True if both have one name."""
        return self.name == other.name

    def __str__(self) -> str:
        return self.name


def _uri(text: str) -> list[str]:
    try:
        parse_request(text)
    except BadUrl as error:
        return [str(error)]
    return []


def _schema_format(name: str, message: str) -> Validate:
    is_valid = VALIDATORS[name]
    return lambda text: [] if is_valid(text) else [message]


FORMATS: Final[dict[str, Format]] = {
    "dns1123Label": Format("DNS1123Label", names.dns_label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", names.dns_subdomain, 60),
    "dns1035Label": Format("DNS1035Label", names.dns1035_label, 30),
    "qualifiedName": Format("QualifiedName", names.qualified_name, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", lambda text: names.dns_label(text, prefix=True), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", lambda text: names.dns_subdomain(text, prefix=True), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", lambda text: names.dns1035_label(text, prefix=True), 30),
    "labelValue": Format("LabelValue", names.label_value, 40),
    "uri": Format("URI", _uri, 1103),
    "uuid": Format("uuid", _schema_format("uuid", "does not match the UUID format"), 70),
    "byte": Format("byte", _schema_format("byte", "invalid base64"), 84),
    "date": Format("date", _schema_format("date", "invalid date"), 71),
    "datetime": Format("datetime", _schema_format("datetime", "invalid datetime"), 71),
}


def _validate(form: Format, text: str) -> Optional:
    errors = form.validate(text)
    return Optional(errors) if errors else NONE


def _named(name: str) -> Optional:
    found = FORMATS.get(name)
    return Optional(found) if found else NONE


def _always(form: Format) -> Callable[[], Format]:
    return lambda: form


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "validate": (Overload("format-validate", (FORMAT_TYPE, STRING), optional_of(list_of(STRING)), member=True),),
    "format.named": (Overload("format-named", (STRING,), optional_of(FORMAT_TYPE)),),
    **{f"format.{name}": (Overload(f"format.{name}", (), FORMAT_TYPE),) for name in FORMATS},
}

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    "format-validate": _validate,
    "format-named": _named,
    **{f"format.{name}": _always(form) for name, form in FORMATS.items()},
}

_LONGEST_PATTERN: Final = 128
_LONGEST_NAME: Final = 64


def _price(args: Sequence[Any], result: Any) -> int:
    pattern = getattr(args[0], "pattern_size", None)
    if not isinstance(pattern, int):
        return 1
    return text_price(1.0 + library_size(args[1])) * pattern_factor(pattern)


def _estimate(site: CallSite) -> CallCost | None:
    if not site.args:
        return None
    return CallCost(site.size(site.args[0]).scaled(READ_FACTOR).scaled(_LONGEST_PATTERN * PATTERN_FACTOR))


def _estimate_equality(_: CallSite) -> CallCost:
    return CallCost(Estimate(1, _LONGEST_NAME).scaled(READ_FACTOR))


LIBRARY: Final = Library(
    name="kubernetes.format",
    functions=FUNCTIONS,
    implementations=IMPLEMENTATIONS,
    prices={"validate": _price},
    estimates={"validate": _estimate},
    equality={FORMAT_TYPE: _estimate_equality},
    since=(1, 31),
)
